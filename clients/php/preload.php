<?php

declare(strict_types=1);

/**
 * For `opcache.preload`: the classes that most requests use are there when a request begins, and none is loaded in it.
 * What belongs to frameworks is not among them. A program without opcache may require it, to load all of them at once.
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
// Without opcache no class has used them yet.
foreach (Undercroft\Commands\Families::NAMES as $family) {
    Undercroft\Commands\Families::make($family, '', null);
}
