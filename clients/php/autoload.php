<?php

declare(strict_types=1);

// Loads the classes of this package where Composer is not there to do it. They are listed, as to ask the file system for
// each takes longer than to load it from opcache; a test compares the list with the files.
spl_autoload_register(static function (string $class): void {
    static $files = [
        'ArgumentException' => true, 'Cache/InvalidKey' => true, 'Cache/Item' => true, 'Cache/Pool' => true,
        'Cache/SimpleCache' => true, 'Cache/Store' => true, 'Cache/SymfonyAdapter' => true, 'Client' => true,
        'Command' => true, 'Commands/Hashes' => true, 'Commands/Keys' => true, 'Commands/Lists' => true,
        'Commands/Server' => true, 'Commands/Sets' => true, 'Commands/SortedSets' => true, 'Commands/Streams' => true,
        'Commands/StreamsWritten' => true, 'Commands/Strings' => true, 'Commands/Written' => true,
        'Connection/Address' => true, 'Connection/ClusterConnection' => true, 'Connection/Connection' => true,
        'Connection/EmbeddedConnection' => true, 'Connection/Factory' => true, 'Connection/NativeConnection' => true,
        'Connection/Options' => true, 'Connection/StreamConnection' => true, 'Connection/Wire' => true,
        'ConnectionException' => true, 'Feed' => true, 'KeyWords' => true, 'Laravel/Connection' => true,
        'Laravel/Connector' => true, 'Message' => true, 'Objects' => true,
        'Pipeline' => true, 'ProtocolException' => true, 'PubSub' => true, 'Replies' => true, 'Resp/Encoder' => true,
        'Resp/NativeParser' => true, 'Resp/Parser' => true, 'Resp/Push' => true, 'Resp/Reader' => true,
        'Resp/Slot' => true, 'Resp/Source' => true, 'Script' => true, 'Serializer/Named' => true,
        'Serializer/Serializer' => true, 'SerializerException' => true, 'ServerException' => true,
        'Session/Handler' => true, 'Session/Holder' => true, 'StoreException' => true, 'StoredObject' => true, 'Table' => true,
        'TimeoutException' => true, 'UndercroftException' => true, 'Watches' => true, 'Words' => true,
    ];
    if (str_starts_with($class, 'Undercroft\\')) {
        $file = strtr(substr($class, 11), '\\', '/');
        if (isset($files[$file])) {
            require __DIR__ . "/src/$file.php";
        }
    }
});
