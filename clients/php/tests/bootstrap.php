<?php

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

// Run the tests in the given locale, because applications may set their users' locale.
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
