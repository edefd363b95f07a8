/** A headless Chromium, if the machine has one. */
import { existsSync } from 'node:fs';
import { chromium, type Browser } from 'playwright-core';

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

export const CHROMIUM = ((): string | undefined => {
  const found = [process.env.CHROMIUM ?? '', ...PLACES].find((path) => path !== '' && existsSync(path));
  if (found === undefined)
    console.warn(`skipped the tests in a browser: none of ${PLACES.join(', ')} exists`);
  return found;
})();

/** Disables Chromium's sandbox, which does not work for root: tests may run as root. */
export const launchBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: CHROMIUM ?? '', args: ['--no-sandbox', '--disable-dev-shm-usage'] });
