// suite: processes
/** The status page as users see it: in a headless Chromium, if it is installed. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import axe from 'axe-core';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';

import { CHROMIUM, launchBrowser } from '../support/browser.ts';
import { runStatusPage, SCENE } from '../support/status-scene.ts';

const KEEP = process.env.GATEHOUSE_KEEP_SCREENSHOTS !== undefined;

describe.skipIf(CHROMIUM === undefined)('in a browser', () => {
  let browser: Browser;
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-screenshots-'));

  beforeAll(async () => {
    browser = await launchBrowser();
  });
  afterAll(async () => {
    await browser.close();
    if (KEEP) console.log(`screenshots are in ${folder}`);
    else rmSync(folder, { recursive: true });
  });

  /** Signs in on a new page. Console errors count as faults, except the answer 401 that asks the user to sign in. */
  async function signIn(options: BrowserContextOptions = {}) {
    const scene = await runStatusPage();
    onTestFinished(() => scene.app.close());
    const context = await browser.newContext(options);
    onTestFinished(() => context.close());
    const page = await context.newPage();
    const faults: string[] = [];
    page.on('pageerror', ({ message }) => faults.push(message));
    page.on('console', (message) => {
      if (message.type() === 'error' && !message.text().includes('401')) faults.push(message.text());
    });
    const asked: string[] = [];
    page.on('request', (request) => asked.push(request.url()));
    await page.goto(scene.url);
    await page.getByLabel('Token', { exact: true }).fill('alice');
    await page.getByLabel('Token', { exact: true }).press('Enter');
    await page.getByRole('heading', { name: 'Certificate authority' }).waitFor();
    return { scene, context, page, faults, asked };
  }

  const isLive = (page: Page) => page.getByText('live', { exact: true }).waitFor();

  test('a signed-in user sees all parts, with no external resource, and no script can read the session', async () => {
    const { scene, context, page, faults, asked } = await signIn();
    await isLive(page);
    const headings = await page.getByRole('heading', { level: 2 }).allTextContents();
    expect(headings.map((text) => text.replaceAll(/\s+/g, ' ').trim())).toEqual([
      ...['2 problems need attention', 'Certificate authority', 'Serving certificates 3'],
      ...['Certificates that servers present', 'Injection targets 4', 'Admission policies 2'],
      ...['References between kinds 4', 'Restore windows 2', 'Leader and replicas'],
    ]);
    const lifetimes = page.getByRole('img', { name: /^Lifetimes of the generations/ });
    expect(await lifetimes.locator('g text.name').count()).toBe(6);
    expect(await page.evaluate('document.cookie')).toBe('');
    const [cookie] = await context.cookies();
    expect(cookie).toMatchObject({ httpOnly: true, secure: true, sameSite: 'Strict', path: '/status' });
    const { origin } = new URL(scene.url);
    expect(asked.filter((url) => !url.startsWith(origin) && !url.startsWith('data:'))).toEqual([]);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Token', { exact: true }).waitFor();
    expect(faults).toEqual([]);
  });

  test('a change appears without a reload, and keeps expanded parts expanded', async () => {
    const { scene, page, faults } = await signIn();
    await isLive(page);
    await page.evaluate('window.notReloaded = true');
    await page.getByRole('heading', { name: 'drill-2026-02' }).click();
    const [servers] = SCENE.admissionPolicies.items.slice(1);
    if (servers === undefined) throw new Error('the scene has two policies');
    scene.change({
      attention: [],
      healthy: true,
      admissionPolicies: {
        unread: [],
        items: [servers, { ...servers, name: '<img src=x onerror=alert(1)>' }],
      },
      restoreWindows: { ...SCENE.restoreWindows, total: 3 },
    });
    await page.getByRole('heading', { name: 'Gatehouse is healthy.' }).waitFor();
    await page.getByRole('rowheader', { name: '<img src=x onerror=alert(1)>' }).waitFor();
    await page.getByRole('heading', { name: 'Restore windows 3' }).waitFor();
    expect(await page.getByText('Server shop/web-1').isVisible()).toBe(true);
    expect(await page.evaluate('window.notReloaded')).toBe(true);
    expect(faults).toEqual([]);
  });

  test('the page works without scripts, and reloads automatically', async () => {
    const { scene, page, faults } = await signIn({ javaScriptEnabled: false });
    scene.change({ attention: [], healthy: true });
    await page.getByRole('heading', { name: 'Gatehouse is healthy.' }).waitFor({ timeout: 60_000 });
    expect(faults).toEqual([]);
  });

  test('an injected script or style does not run', async () => {
    const { page, faults } = await signIn();
    await page.evaluate(`{
      const script = document.createElement('script');
      script.textContent = 'window.ran = true';
      document.body.append(script);
    }`);
    expect(await page.evaluate('window.ran')).toBeUndefined();
    expect(faults.join()).toContain('Content Security Policy');
  });

  const widths = [1280, 800, 400];
  test.each(
    (['light', 'dark'] as const).flatMap((scheme) => widths.map((width) => [scheme, width] as const)),
  )('%s, %d pixels wide: the page fits and is legible', async (colorScheme, width) => {
    const { page, faults } = await signIn({ colorScheme, viewport: { width, height: 900 } });
    await isLive(page);
    await page.getByRole('heading', { name: 'drill-2026-02' }).click();
    await page.screenshot({ path: join(folder, `${colorScheme}-${width}.png`), fullPage: true });
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(width);
    expect(await page.evaluate<number>(LEAST_CONTRAST)).toBeGreaterThanOrEqual(4.5);
    expect(await violationsIn(page)).toEqual([]);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Token', { exact: true }).waitFor();
    await page.screenshot({ path: join(folder, `sign-in-${colorScheme}-${width}.png`), fullPage: true });
    expect(await violationsIn(page)).toEqual([]);
    expect(faults).toEqual([]);
  });
});

async function violationsIn(page: Page): Promise<readonly string[]> {
  // Through the debugger, because the page forbids scripts of others.
  const session = await page.context().newCDPSession(page);
  await session.send('Runtime.evaluate', { expression: axe.source });
  await session.detach();
  return await page.evaluate<readonly string[]>(
    `axe.run().then(({ violations }) => violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => id + ': ' + target)))`,
  );
}

/** Runs in the page: the minimum contrast of a text against its background (WCAG 2.2, 1.4.3). */
const LEAST_CONTRAST = `(() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b]
    .map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
  const ground = (element) => {
    const colour = parse(getComputedStyle(element).backgroundColor);
    return colour.length === 4 && colour[3] === 0 && element.parentElement ? ground(element.parentElement) : colour;
  };
  const contrasts = [...document.querySelectorAll('body *')]
    .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== ''))
    .filter((element) => !['SCRIPT', 'TITLE', 'NOSCRIPT'].includes(element.tagName.toUpperCase()))
    .map((element) => {
      const style = getComputedStyle(element);
      const [a, b] = [parse(element instanceof SVGElement ? style.fill : style.color), ground(element)].map(light);
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    });
  return Math.min(...contrasts);
})()`;
