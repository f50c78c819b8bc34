<?php

declare(strict_types=1);

/**
 * A guest book with a session for each visitor, a counter, a cached page, and a list of entries.
 * UNDERCROFT_URL specifies whether the data is in a store or on a server.
 */
require __DIR__ . '/../../clients/php/autoload.php';

use Undercroft\Client;
use Undercroft\Session\Handler;

$client = new Client($_SERVER['UNDERCROFT_URL'] ?? 'undercroft://guests', ['prefix' => 'guests:']);
session_set_save_handler(new Handler($client), true);
session_start(['cookie_httponly' => true, 'cookie_samesite' => 'Lax', 'use_strict_mode' => true]);
$_SESSION['token'] ??= bin2hex(random_bytes(16));

/** Returns the entries as HTML, which is rendered anew after each new entry. */
function entries(Client $client): string
{
    $page = $client->get('page');
    if ($page === null) {
        $page = '';
        foreach ($client->lRange('entries', 0, 19) as $text) {
            $entry = json_decode($text, true, 8, JSON_THROW_ON_ERROR);
            [$name, $said] = [htmlspecialchars($entry['name']), htmlspecialchars($entry['text'])];
            $page .= "<li><b>$name</b> $said</li>";
        }
        $client->set('page', $page, ['ex' => 60]);
    }
    return $page;
}

if ($_SERVER['REQUEST_METHOD'] === 'POST') {
    $text = trim((string) ($_POST['text'] ?? ''));
    if (!hash_equals($_SESSION['token'], (string) ($_POST['token'] ?? ''))) {
        http_response_code(403);
        exit('This form is of another session.');
    }
    $_SESSION['name'] = trim((string) ($_POST['name'] ?? '')) ?: 'somebody';
    if ($text !== '') {
        $entry = json_encode(['name' => $_SESSION['name'], 'text' => $text], JSON_THROW_ON_ERROR
            | JSON_INVALID_UTF8_SUBSTITUTE);
        // Use one transaction, so that no reader finds the new entry together with the old page.
        $client->transaction(fn ($queue) => $queue->lPush('entries', $entry)->lTrim('entries', 0, 999)->del('page')
            ->zIncrBy('writers', 1, $_SESSION['name']));
    }
    header('Location: /', true, 303);
    exit;
}
$visits = $client->incr('visits');
$_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
$writers = $client->zRange('writers', 0, 4, ['rev', 'withscores' => true]);
?>
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Guest book</title>
<style>
    body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem }
    label { display: block; margin: .5rem 0 } input { font: inherit; width: 100%; box-sizing: border-box }
</style>
<h1>Guest book</h1>
<p>Visit <span id="visits"><?= $visits ?></span>, your <span id="own"><?= $_SESSION['visits'] ?></span>.</p>
<form method="post">
    <input type="hidden" name="token" value="<?= $_SESSION['token'] ?>">
    <label>Your name <input name="name" value="<?= htmlspecialchars($_SESSION['name'] ?? '') ?>"></label>
    <label>What you say <input name="text" required autofocus></label>
    <button>Write</button>
</form>
<ol id="entries" reversed><?= entries($client) ?></ol>
<?php if ($writers !== []): ?>
<h2>Who wrote most</h2>
<ul id="writers">
<?php foreach ($writers as $name => $count): ?>
    <li><?= htmlspecialchars((string) $name) ?>: <?= (int) $count ?></li>
<?php endforeach ?>
</ul>
<?php endif ?>
