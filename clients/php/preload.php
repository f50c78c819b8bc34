<?php

declare(strict_types=1);

/**
 * A script for `opcache.preload` that loads the classes that most requests use. Framework
 * integrations are not included. A program without opcache can require this file to load all of
 * these classes together.
 */

require_once __DIR__ . '/autoload.php';

$names = ['Client', 'Pipeline', 'Commands/Replies', 'Commands/Words', 'Commands/KeyWords', 'Commands/Table',
    'Connection/Address', 'Connection/Options', 'Connection/StreamConnection', 'Connection/NativeConnection',
    'Connection/Wire', 'Connection/Kept', 'Connection/Waits', 'Resp/Encoder', 'Resp/Parser', 'Resp/Push',
    'Serializer/Named', 'Session/Handler', 'Session/Holder', 'Scans', 'Watches', 'ArgumentException',
    'ServerException', 'TimeoutException', 'ProtocolException', 'SerializerException', 'StoreException'];
if (extension_loaded('undercroft')) {
    array_push($names, 'Connection/EmbeddedConnection', 'Resp/NativeParser');
}
foreach ($names as $name) {
    class_exists('Undercroft\\' . strtr($name, '/', '\\'));
}
// Without opcache, the family classes are loaded on first use, so load them here.
foreach (Undercroft\Commands\Families::NAMES as $family) {
    Undercroft\Commands\Families::make($family, '', null);
}
