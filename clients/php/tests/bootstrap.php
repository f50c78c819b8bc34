<?php

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Undercroft\\Tests\\')) {
        $file = __DIR__ . '/' . strtr(substr($class, 17), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});
