<?php

declare(strict_types=1);

namespace Undercroft\Commands;

/** Made by tools/generate.php of tools/commands.php. */
trait Server
{
    /**
     * Sends a message to all who are subscribed to the channel, in every process. Time: O(N+M) for N receivers and M
     * patterns of all clients.
     *
     * `PUBLISH channel message`
     *
     * @return int
     */
    public function publish(string|int|float $channel, string|int|float $message): mixed
    {
        return $this->call(['PUBLISH', $channel, $message]);
    }

    /**
     * Sends a message to all who are subscribed to the shard channel, in every process. Time: O(N) for N receivers.
     *
     * `SPUBLISH shardchannel message`
     *
     * @return int
     */
    public function sPublish(string|int|float $channel, string|int|float $message): mixed
    {
        return $this->call(['SPUBLISH', $channel, $message]);
    }

    /**
     * Looks at channels and who is subscribed. Time: That of the subcommand.
     *
     * `PUBSUB`
     *
     * @return mixed
     */
    public function pubSub(string|int|float $subcommand, mixed ...$options): mixed
    {
        return $this->call(['PUBSUB', $subcommand, ...Words::options($options)], 'numbers');
    }

    /**
     * Returns 0 at once: there are no replicas to wait for. Time: O(1).
     *
     * `WAIT numreplicas timeout`
     *
     * @return int
     */
    public function wait(string|int|float $replicas, string|int|float $milliseconds): mixed
    {
        return $this->call(['WAIT', $replicas, $milliseconds]);
    }

    /**
     * Logs in. Time: O(N) for N passwords of the user.
     *
     * `AUTH [username] password`
     *
     * @return bool
     */
    public function auth(mixed ...$words): mixed
    {
        return $this->call(['AUTH', ...Words::flat($words)], 'bool');
    }

    /**
     * Returns its argument. Time: O(1).
     *
     * `ECHO message`
     *
     * @return string
     */
    public function echo(string|int|float $message): mixed
    {
        return $this->call(['ECHO', $message]);
    }

    /**
     * Answers, to show that the server does. Time: O(1).
     *
     * `PING [message]`
     *
     * @return string
     */
    public function ping(string|int|float|null $message = null): mixed
    {
        return $this->call(['PING', ...($message === null ? [] : [$message])]);
    }

    /**
     * Looks at connections and changes them. Time: That of the subcommand.
     *
     * `CLIENT`
     *
     * @return mixed
     */
    public function client(string|int|float $subcommand, mixed ...$options): mixed
    {
        return $this->call(['CLIENT', $subcommand, ...Words::options($options)], 'clients');
    }

    /**
     * Describes every command. Time: O(N) for N commands.
     *
     * `COMMAND`
     *
     * @return mixed
     */
    public function command(mixed ...$options): mixed
    {
        return $this->call(['COMMAND', ...Words::options($options)]);
    }

    /**
     * Reads and changes the server's configuration. Time: That of the subcommand.
     *
     * `CONFIG`
     *
     * @return mixed
     */
    public function config(string|int|float $subcommand, mixed ...$options): mixed
    {
        return $this->call(['CONFIG', $subcommand, ...Words::options($options)], 'settings');
    }

    /**
     * Counts the keys of the database. Time: O(1).
     *
     * `DBSIZE`
     *
     * @return int
     */
    public function dbSize(): mixed
    {
        return $this->call(['DBSIZE']);
    }

    /**
     * Deletes every key of every database. Time: O(N) for N keys; O(1) with ASYNC.
     *
     * `FLUSHALL [ASYNC | SYNC]`
     *
     * @return bool
     */
    public function flushAll(mixed ...$options): mixed
    {
        return $this->call(['FLUSHALL', ...Words::options($options)], 'bool');
    }

    /**
     * Deletes every key of the database. Time: O(N) for N keys; O(1) with ASYNC.
     *
     * `FLUSHDB [ASYNC | SYNC]`
     *
     * @return bool
     */
    public function flushDb(mixed ...$options): mixed
    {
        return $this->call(['FLUSHDB', ...Words::options($options)], 'bool');
    }

    /**
     * Reports figures about the server. Time: O(1).
     *
     * `INFO [section [section ...]]`
     *
     * @return array<string, mixed>
     */
    public function info(mixed ...$sections): mixed
    {
        return $this->call(['INFO', ...Words::flat($sections)], 'info');
    }

    /**
     * Returns when the server was started: nothing was saved since. Time: O(1).
     *
     * `LASTSAVE`
     *
     * @return int
     */
    public function lastSave(): mixed
    {
        return $this->call(['LASTSAVE']);
    }

    /**
     * Says that snapshots are not there yet. Time: O(1).
     *
     * `BGSAVE [SCHEDULE]`
     *
     * @return string
     */
    public function bgSave(mixed ...$options): mixed
    {
        return $this->call(['BGSAVE', ...Words::options($options)]);
    }

    /**
     * Says that snapshots are not there yet. Time: O(1).
     *
     * `SAVE`
     *
     * @return bool
     */
    public function save(): mixed
    {
        return $this->call(['SAVE'], 'bool');
    }

    /**
     * Returns master: no server follows another one. Time: O(1).
     *
     * `ROLE`
     *
     * @return mixed
     */
    public function role(): mixed
    {
        return $this->call(['ROLE']);
    }

    /**
     * Looks at scripts. Time: That of the subcommand.
     *
     * `SCRIPT`
     *
     * @return mixed
     */
    public function script(string|int|float $subcommand, mixed ...$options): mixed
    {
        return $this->call(['SCRIPT', $subcommand, ...Words::options($options)]);
    }

    /**
     * Stops the server. Time: O(1).
     *
     * `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`
     *
     * @return mixed
     */
    public function shutdown(mixed ...$options): mixed
    {
        return $this->call(['SHUTDOWN', ...Words::options($options)]);
    }

    /**
     * Looks at the commands that took long. Time: That of the subcommand.
     *
     * `SLOWLOG`
     *
     * @return mixed
     */
    public function slowLog(string|int|float $subcommand, mixed ...$options): mixed
    {
        return $this->call(['SLOWLOG', $subcommand, ...Words::options($options)]);
    }

    /**
     * Exchanges two databases for all connections at once. Time: O(N) for N clients that watch or wait for keys.
     *
     * `SWAPDB index1 index2`
     *
     * @return bool
     */
    public function swapDb(string|int|float $first, string|int|float $second): mixed
    {
        return $this->call(['SWAPDB', $first, $second], 'bool');
    }

    /**
     * Returns the server's clock. Time: O(1).
     *
     * `TIME`
     *
     * @return list<string>
     */
    public function time(): mixed
    {
        return $this->call(['TIME']);
    }

    /**
     * Tells of users and changes what they may do. Time: O(N) in what it tells of.
     *
     * `ACL CAT | DELUSER | DRYRUN | GENPASS | GETUSER | LIST | LOAD | LOG | SAVE | SETUSER | USERS | WHOAMI [...]`
     *
     * @return mixed
     */
    public function acl(string|int|float $subcommand, mixed ...$options): mixed
    {
        return $this->call(['ACL', $subcommand, ...Words::options($options)], 'acl');
    }

    /**
     * Writes the append-only file anew, in the background. Time: O(1).
     *
     * `BGREWRITEAOF`
     *
     * @return string
     */
    public function bgRewriteAof(): mixed
    {
        return $this->call(['BGREWRITEAOF']);
    }

    /**
     * Tells of a cluster and changes it. Time: O(N) in what it tells of.
     *
     * `CLUSTER COUNTKEYSINSLOT | INFO | KEYSLOT | MYID | NODES | SHARDS | SLOTS [...]`
     *
     * @return mixed
     */
    public function cluster(string|int|float $subcommand, mixed ...$options): mixed
    {
        return $this->call(['CLUSTER', $subcommand, ...Words::options($options)], 'cluster');
    }

    /**
     * Helps in testing servers and clients. Time: That of the subcommand.
     *
     * `DEBUG subcommand [arg [arg ...]]`
     *
     * @return mixed true where there is nothing to tell
     */
    public function debug(string|int|float $subcommand, mixed ...$options): mixed
    {
        return $this->call(['DEBUG', $subcommand, ...Words::options($options)], 'done');
    }

    /**
     * Has a replica take this server's place. Time: O(1).
     *
     * `FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]`
     *
     * @return bool
     */
    public function failover(mixed ...$options): mixed
    {
        return $this->call(['FAILOVER', ...Words::options($options)], 'bool');
    }

    /**
     * Loads, lists, saves and removes libraries of functions. Time: O(N) in what it works on.
     *
     * `FUNCTION DELETE | DUMP | FLUSH | KILL | LIST | LOAD | RESTORE | STATS [...]`
     *
     * @return mixed
     */
    public function function(string|int|float $subcommand, mixed ...$options): mixed
    {
        return $this->call(['FUNCTION', $subcommand, ...Words::options($options)], 'functions');
    }

    /**
     * Tells what took long. Time: O(N) in what it tells of.
     *
     * `LATENCY DOCTOR | GRAPH | HISTOGRAM | HISTORY | LATEST | RESET [...]`
     *
     * @return mixed true where there is nothing to tell
     */
    public function latency(string|int|float $subcommand, mixed ...$options): mixed
    {
        return $this->call(['LATENCY', $subcommand, ...Words::options($options)], 'done');
    }

    /**
     * Draws a vault, and tells the version. Time: O(1).
     *
     * `LOLWUT [VERSION version]`
     *
     * @return string
     */
    public function lolwut(mixed ...$options): mixed
    {
        return $this->call(['LOLWUT', ...Words::options($options)]);
    }

    /**
     * Loads, lists and removes modules. Time: O(N) in what it tells of.
     *
     * `MODULE LIST | LOAD | LOADEX | UNLOAD [...]`
     *
     * @return mixed
     */
    public function module(string|int|float $subcommand, mixed ...$options): mixed
    {
        return $this->call(['MODULE', $subcommand, ...Words::options($options)], 'modules');
    }

    /**
     * Makes a server a replica of another one, or none with NO ONE. Time: O(1).
     *
     * `REPLICAOF host port`
     *
     * @return bool
     */
    public function replicaOf(string|int|float $host, string|int|float $port): mixed
    {
        return $this->call(['REPLICAOF', $host, $port], 'bool');
    }

    /**
     * The former name of REPLICAOF. Time: O(1).
     *
     * `SLAVEOF host port`
     *
     * @return bool
     */
    public function slaveOf(string|int|float $host, string|int|float $port): mixed
    {
        return $this->call(['SLAVEOF', $host, $port], 'bool');
    }
}
