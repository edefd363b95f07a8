import { createHash } from 'node:crypto';

import { STATUS_AUDIENCE } from './credentials.ts';
import { command, html, trusted, type Html } from './html.ts';
import { STYLE_SHEET } from './style-sheet.ts';

/** Copies commands. The buttons are visible only where scripts run. */
const COPY_SCRIPT = `
(() => {
  'use strict';
  document.documentElement.classList.add('scripts');
  document.addEventListener('click', async ({ target }) => {
    const button = target.closest('button.copy');
    if (button === null) return;
    try {
      await navigator.clipboard.writeText(button.dataset.text);
      button.textContent = 'Copied';
    } catch {
      // Without permission, select the command instead.
      getSelection().selectAllChildren(button.previousElementSibling);
      button.textContent = 'Selected';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  });
})();
`;

/** Updates an open page from server-sent events. Without scripts, the page reloads itself. */
const LIVE_SCRIPT = `
(() => {
  'use strict';
  const RELOAD_MS = 10000;
  const main = document.querySelector('main');
  const checked = document.getElementById('checked');
  const live = document.getElementById('live');
  const say = (word, on) => {
    live.querySelector('.word').textContent = word;
    live.classList.toggle('live', on);
  };
  const show = (text) => {
    const next = document.createElement('template');
    next.innerHTML = text;
    const unfolded = new Map([...main.querySelectorAll('details')].map(({ id, open }) => [id, open]));
    for (const details of next.content.querySelectorAll('details'))
      if (unfolded.has(details.id)) details.open = unfolded.get(details.id);
    const focused = document.activeElement && document.activeElement.id;
    for (const part of [...next.content.children]) {
      const old = document.getElementById(part.id);
      if (old === null) main.append(part);
      else if (!old.isEqualNode(part)) old.replaceWith(part);
    }
    if (focused && document.activeElement.id !== focused) document.getElementById(focused)?.focus({ preventScroll: true });
  };
  const events = new EventSource('/status/events?seen=' + encodeURIComponent(main.dataset.version));
  events.addEventListener('open', () => say('live', true));
  events.addEventListener('content', ({ data }) => show(data));
  events.addEventListener('checked', ({ data }) => {
    checked.dateTime = data;
    checked.textContent = data.slice(11, 19) + ' UTC';
  });
  events.addEventListener('error', () => {
    say('reconnecting', false);
    // Refused, not just disconnected: signed out, or too many viewers.
    if (events.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), RELOAD_MS);
  });
  addEventListener('pagehide', () => events.close());
  addEventListener('pageshow', ({ persisted }) => { if (persisted) location.reload(); });
})();
`;

export interface View {
  readonly subtitle: string;
  /** Elements with stable ids. Open pages replace the elements that change. */
  readonly content: Html;
  readonly checkedAt: string;
}

/** Changes with the content, not with `checkedAt`. */
export const versionOf = ({ content, subtitle }: View): string =>
  createHash('sha256').update(`${subtitle}\n${content.text}`).digest('base64url').slice(0, 22);

const hashOf = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

/** Blocks external resources and framing. Allows only our own inline script and style, by hash. */
export const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `script-src ${hashOf(LIVE_SCRIPT)} ${hashOf(COPY_SCRIPT)}`,
  `style-src ${hashOf(STYLE_SHEET)}`,
  "connect-src 'self'",
  "form-action 'self'",
  'img-src data:',
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

// Interpolate whole elements: whitespace that a formatter adds between the tags would change the hash.
const STYLE = trusted(`<style>${STYLE_SHEET}</style>`);
const LIVE = trusted(`<script>${LIVE_SCRIPT}</script>`);
const COPY = trusted(`<script>${COPY_SCRIPT}</script>`);
const GATE = trusted(
  '<svg viewBox="0 0 32 32" aria-hidden="true" focusable="false"><path fill="currentColor" d="M3 29V8h3V4h4v4h3V4h6v4h3V4h4v4h3v21h-8v-7a5 5 0 0 0-10 0v7z"/></svg>',
);

const ICON = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="#3b82d6" d="M3 29V8h3V4h4v4h3V4h6v4h3V4h4v4h3v21h-8v-7a5 5 0 0 0-10 0v7z"/></svg>',
)}`;

interface Layout {
  readonly title: string;
  readonly head?: Html;
  readonly subtitle: string;
  readonly aside?: Html;
  readonly main: Html;
  readonly end?: Html;
}

const layout = ({ title, head, subtitle, aside, main, end }: Layout): string =>
  html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title}</title>
        <link rel="icon" href="${trusted(ICON)}" />
        ${STYLE} ${head}
      </head>
      <body>
        <a class="skip" href="#main">Skip to the content</a>
        <header class="top">
          <div>
            <div class="brand">
              ${GATE}
              <div>
                <h1>Gatehouse</h1>
                <p>${subtitle}</p>
              </div>
            </div>
            ${aside}
          </div>
        </header>
        ${main} ${end}
      </body>
    </html> `.text;

const RELOAD_S = 10;

export function statusDocument(view: View, viewer: string, signsOut: boolean): string {
  const { subtitle, content, checkedAt } = view;
  return layout({
    title: 'Gatehouse status',
    head: html`<noscript><meta http-equiv="refresh" content="${RELOAD_S}" /></noscript> `,
    subtitle,
    aside: html`<div class="who">
      <span id="live"><span class="dot"></span><span class="word">as of</span></span>
      <time id="checked" datetime="${checkedAt}">${checkedAt.slice(11, 19)} UTC</time>
      <span>${viewer}</span>
      ${signsOut ? html`<form method="post" action="/status/logout"><button>Sign out</button></form>` : undefined}
    </div> `,
    main: html`<main id="main" tabindex="-1" data-version="${versionOf(view)}">${content}</main>
      <footer>
        <p>Read-only. At a terminal: ${command('gatehouse status')}</p>
      </footer>`,
    end: html`${COPY} ${LIVE}`,
  });
}

export const signInDocument = (problem: string | undefined): string =>
  layout({
    title: 'Gatehouse: sign in',
    subtitle: 'Status page',
    main: html`<main id="main" class="login" tabindex="-1">
      <section aria-labelledby="sign-in">
        <h2 id="sign-in">Sign in with a token</h2>
        ${problem === undefined ? undefined : html`<p class="problem" role="alert">${problem}</p>`}
        <p class="lead">
          Create a token for this page, valid for an hour, for a service account with access:
        </p>
        <p class="command">
          <code class="mono"
            >kubectl create token &lt;service account&gt; --namespace &lt;namespace&gt; --audience
            ${STATUS_AUDIENCE}</code
          >
        </p>
        <form method="post" action="/status/login" autocomplete="off">
          <label for="token">Token</label>
          <input id="token" name="token" type="password" class="mono" required autofocus autocomplete="off" />
          <button>Sign in</button>
        </form>
        <p class="nothing">
          The service account needs a binding to the ClusterRole
          <span class="mono">gatehouse-status-viewer</span>. This replica keeps the token in memory for an
          hour at most. The browser stores only a random number.
        </p>
      </section>
    </main>`,
  });

export const retryDocument = (problem: string): string =>
  layout({
    title: 'Gatehouse: not now',
    head: html`<meta http-equiv="refresh" content="${RELOAD_S}" /> `,
    subtitle: 'Status page',
    main: html`<main id="main" class="login" tabindex="-1">
      <section>
        <h2>Not now</h2>
        <p class="problem" role="alert">${problem}</p>
        <p class="nothing">This page tries again every ${RELOAD_S} seconds.</p>
      </section>
    </main>`,
  });
