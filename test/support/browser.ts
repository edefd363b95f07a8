/** A headless Chromium, where the machine has one. */
import { existsSync } from 'node:fs';
import { chromium, type Browser } from 'playwright-core';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** Where it is; says so in the log of the test run where there is none. */
export const CHROMIUM = ((): string | undefined => {
  const found = [process.env.CHROMIUM ?? '', ...PLACES].find((path) => path !== '' && existsSync(path));
  if (found === undefined)
    console.warn(`skipped: whatever takes a browser, for there is none of ${PLACES.join(', ')}`);
  return found;
})();

/** Tests may run as root, for whom Chromium has no sandbox. */
export const launchBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: CHROMIUM ?? '', args: ['--no-sandbox', '--disable-dev-shm-usage'] });
