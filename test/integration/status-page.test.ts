/** The status page over real sockets, with requests of browsers and programs. */
import { expect, onTestFinished, test } from 'vitest';

import { MAX_SESSIONS, SESSION_MS } from '../../src/server/status-page/credentials.ts';
import { MAX_VIEWERS } from '../../src/server/status-page/status-page.ts';
import { eventually } from '../support/processes.ts';
import { runStatusPage } from '../support/status-scene.ts';
import { listen } from '../support/status-viewers.ts';

async function start() {
  const scene = await runStatusPage();
  onTestFinished(() => scene.app.close());
  const get = (path = '', headers: Readonly<Record<string, string>> = {}) =>
    fetch(scene.url + path, { headers, redirect: 'manual' });
  const post = (path: string, body: string, headers: Readonly<Record<string, string>> = {}) =>
    fetch(scene.url + path, {
      method: 'POST',
      body,
      redirect: 'manual',
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    });
  return { ...scene, get, post };
}

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const cookieOf = (response: Response): string =>
  (response.headers.get('set-cookie') ?? '').split(';')[0] ?? '';

test.each([
  ['invalid', 401],
  ['bob', 403],
  ['broken', 503],
  ['alice', 200],
])('the token of %s gets a %d, and no answer may be cached or framed', async (token, status) => {
  const { get } = await start();
  for (const path of ['', '/events']) {
    const response = await get(path, bearer(token));
    expect(response.status).toBe(status);
    expect(response.headers.get('cache-control')).toBe('no-store');
    expect(response.headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
    if (status !== 200) expect(await response.text()).not.toContain('gatehouse-system');
    await response.body?.cancel().catch(() => undefined);
  }
});

test('a form with a token opens a session, which ends when the user signs out', async () => {
  const { get, post } = await start();
  const entered = await post('/login', 'token=%20alice%0A');
  expect([entered.status, entered.headers.get('location')]).toEqual([303, '/status']);
  expect(entered.headers.get('set-cookie')).toMatch(
    /^gatehouse-status=[\w-]{43}; Path=\/status; Max-Age=3600; HttpOnly; Secure; SameSite=Strict$/,
  );
  const cookie = cookieOf(entered);
  expect(cookie).not.toContain('alice');
  expect((await get('', { cookie })).status).toBe(200);
  expect((await post('/logout', '', { cookie })).status).toBe(303);
  expect((await get('', { cookie })).status).toBe(401);
});

test('a session ends after an hour, or when too many newer sessions exist', async () => {
  const { get, post, pass } = await start();
  const first = cookieOf(await post('/login', 'token=alice'));
  pass(SESSION_MS);
  expect((await get('', { cookie: first })).status).toBe(401);
  const second = cookieOf(await post('/login', 'token=alice'));
  for (let count = 0; count < MAX_SESSIONS; count += 1) await post('/login', 'token=alice');
  expect((await get('', { cookie: second })).status).toBe(401);
});

test.each([
  ['token=invalid', 401],
  ['token=bob', 403],
  ['token=broken', 503],
  ['', 401],
  ['token=%3Cscript%3E', 401],
])('the form "%s" opens no session: %d', async (form, status) => {
  const { post } = await start();
  const response = await post('/login', form);
  expect([response.status, response.headers.get('set-cookie')]).toEqual([status, null]);
  expect(await response.text()).not.toContain('<script>');
});

test('a form of another site, of another type, or of several megabytes is refused', async () => {
  const { post } = await start();
  const foreign = await post('/login', 'token=alice', { origin: 'http://evil.example' });
  expect([foreign.status, foreign.headers.get('set-cookie')]).toEqual([403, null]);
  const sibling = await post('/logout', '', { 'sec-fetch-site': 'same-site' });
  expect([sibling.status, sibling.headers.get('set-cookie')]).toEqual([403, null]);
  expect((await post('/login', '{"token":"alice"}', { 'content-type': 'application/json' })).status).toBe(
    415,
  );
  expect((await post('/login', `token=${'x'.repeat(200_000)}`)).status).toBe(413);
});

test('a client that has this version gets a 304', async () => {
  const { get, change } = await start();
  const tag = (await get('', bearer('alice'))).headers.get('etag') ?? '';
  const again = () => get('', { ...bearer('alice'), 'if-none-match': tag });
  expect((await again()).status).toBe(304);
  change({ attention: [] });
  expect((await again()).status).toBe(200);
});

test('an open page receives each change once, and nothing that it has already', async () => {
  const { url, get, change } = await start();
  const tag = (await get('', bearer('alice'))).headers.get('etag')?.replaceAll('"', '') ?? '';
  const { heard } = await listen(url, { ...bearer('alice'), 'last-event-id': tag });
  await eventually('a sign of life', () => heard.text.includes('event: checked'));
  expect(heard.text).not.toContain('event: content');
  change({ attention: [{ part: 'leader', object: 'Pod <b>new</b>', message: 'a\r\nb' }] });
  await eventually('the change', () => heard.text.includes('Pod &lt;b&gt;new'));
  await eventually('another sign of life', () => heard.text.split('event: checked').length > 3);
  expect(heard.text.split('event: content')).toHaveLength(2);
});

test('a stream ends with the session, and with the permission', async () => {
  const { url, post, pass, forbid } = await start();
  const cookie = cookieOf(await post('/login', 'token=alice'));
  const session = await listen(url, { cookie });
  const token = await listen(url, bearer('alice'));
  await eventually('both streams are open', () => session.heard.text !== '' && token.heard.text !== '');
  await post('/logout', '', { cookie });
  await eventually('the session’s end', () => session.heard.over);
  expect(token.heard.over).toBe(false);
  forbid('alice');
  pass(60_000);
  await eventually('the end of all streams', () => token.heard.over);
});

test('the number of open pages is limited, and a closed page frees its place', async () => {
  const { url, get } = await start();
  const all = await Promise.all(Array.from({ length: MAX_VIEWERS }, () => listen(url, bearer('alice'))));
  const next = await get('/events', bearer('alice'));
  expect([next.status, next.headers.get('retry-after')]).toEqual([503, '10']);
  all[0]?.stop();
  await eventually('room', async () => (await listen(url, bearer('alice'))).status === 200);
});

test('open pages do not delay the shutdown, and their streams end cleanly', async () => {
  const { app, url } = await start();
  const { heard } = await listen(url, bearer('alice'));
  await eventually('the stream is open', () => heard.text.includes('event: checked'));
  await app.close();
  await eventually('the stream has ended', () => heard.over);
});
