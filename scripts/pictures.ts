/**
 * Makes the pictures of the README from the running program: `npm run pictures`. Needs Chromium for the status page.
 * The pictures contain times and names that differ in each run, so no test compares them.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { CHROMIUM, launchBrowser } from '../test/support/browser.ts';
import { runStatusPage } from '../test/support/status-scene.ts';
import { drawTerminal } from './pictures/terminal.ts';

const ROOT = join(import.meta.dirname, '..');
const FOLDER = join(ROOT, 'docs', 'pictures');

/** What the sandbox prints after the tour: the kubeconfig and what to try. */
const AFTER_TOUR = /^ *export KUBECONFIG=/m;

async function tour(): Promise<string> {
  const sandbox = spawn(process.execPath, [join(ROOT, 'src', 'main.ts'), 'sandbox'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(sandbox, 'exit');
  let printed = '';
  for await (const chunk of sandbox.stdout.setEncoding('utf8')) {
    printed += String(chunk);
    if (AFTER_TOUR.test(printed)) break;
  }
  sandbox.kill('SIGTERM');
  await ended;
  if (!AFTER_TOUR.test(printed)) throw new Error(`the tour did not end:\n${printed}`);
  // Without the last heading, which introduces what to try next.
  return printed.slice(0, printed.search(AFTER_TOUR)).trimEnd().split('\n').slice(0, -1).join('\n');
}

/** The page of the tests, which shows an example of every item, at a fixed time. */
async function statusPage(): Promise<void> {
  if (CHROMIUM === undefined) return;
  const scene = await runStatusPage();
  const browser = await launchBrowser();
  try {
    for (const colorScheme of ['light', 'dark'] as const) {
      const page = await browser.newPage({ colorScheme, viewport: { width: 1_100, height: 760 } });
      await page.goto(scene.url);
      await page.getByLabel('Token', { exact: true }).fill('alice');
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByText('live', { exact: true }).waitFor();
      await page.screenshot({ path: join(FOLDER, `status-page-${colorScheme}.png`) });
      await page.close();
    }
  } finally {
    await browser.close();
    await scene.app.close();
  }
}

const title = 'The demonstration that npm start prints';
writeFileSync(join(FOLDER, 'tour.svg'), drawTerminal(title, 'npm start', await tour()));
await statusPage();
