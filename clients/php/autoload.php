<?php

declare(strict_types=1);

// Loads this package's classes without Composer.
//
// The classes are listed here because checking the file system for a class takes longer than
// loading the class from opcache. The list is one string because PHP without opcache parses a
// string faster than an array. A test compares the list with the files.
spl_autoload_register(static function (string $class): void {
    static $files = '
        |ArgumentException|Cache/InvalidKey|Cache/Item|Cache/Pool|Cache/SimpleCache|Cache/Store|Cache/SymfonyAdapter|
        |Channel|Channels/ChannelClosed|Channels/Delivery|Channels/EmbeddedLink|Channels/Item|Channels/Link|
        |Channels/Received|Channels/RemoteLink|Client|Command|Commands/Base|Commands/Families|Commands/Family|
        |Commands/Hashes|Commands/KeyWords|Commands/Keys|Commands/Lists|Commands/Methods|Commands/Packing|
        |Commands/Replies|Commands/Server|Commands/Sets|Commands/SortedSets|Commands/Streams|Commands/StreamsWritten|
        |Commands/Strings|Commands/Table|Commands/Words|Commands/Written|Connection/Address|
        |Connection/ClusterConnection|Connection/Connection|Connection/EmbeddedConnection|Connection/Kept|
        |Connection/NativeConnection|Connection/Options|Connection/StreamConnection|Connection/Waits|Connection/Wire|
        |ConnectionException|Feed|Laravel/Connection|Laravel/Connector|Message|Objects|Pipeline|ProtocolException|
        |PubSub|Resp/Encoder|Resp/NativeParser|Resp/Parser|Resp/Push|Resp/Reader|Resp/Slot|Resp/Source|Scans|Script|
        |Serializer/Named|Serializer/Serializer|SerializerException|ServerException|Session/Handler|Session/Holder|
        |StoreException|StoredObject|TimeoutException|UndercroftException|Watches|
    ';
    if (str_starts_with($class, 'Undercroft\\')) {
        $file = strtr(substr($class, 11), '\\', '/');
        if (str_contains($files, "|$file|")) {
            require __DIR__ . "/src/$file.php";
        }
    }
});
