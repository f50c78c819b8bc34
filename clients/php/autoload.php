<?php

declare(strict_types=1);

// Loads the classes of this package where Composer is not there to do it.
spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Undercroft\\')) {
        $file = __DIR__ . '/src/' . strtr(substr($class, 11), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});
