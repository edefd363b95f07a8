/** The scripts of the page. Plain JavaScript for browsers. */

/** Copies commands. The buttons are visible only where scripts run. */
export const COPY_SCRIPT = `
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

/**
 * Updates an open page: replaces the parts that changed, from server-sent events, and keeps the rest, including the
 * scroll position. Without scripts, the page reloads itself.
 */
export const LIVE_SCRIPT = `
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
