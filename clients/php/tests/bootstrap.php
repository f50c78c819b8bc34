<?php

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

// The tests run in this locale, as programs do that speak to their users in their language.
$locale = getenv('UNDERCROFT_LOCALE') ?: 'C';
if (setlocale(LC_ALL, $locale) === false) {
    throw new RuntimeException("expected the locale $locale of UNDERCROFT_LOCALE, which is not on this machine");
}

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Undercroft\\Tests\\')) {
        $file = __DIR__ . '/' . strtr(substr($class, 17), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});
