import { shorten } from '../../json/printable.ts';

/** Text that is HTML already. Created by {@link html} and {@link trusted} only. */
export interface Html {
  readonly kind: 'html';
  readonly text: string;
}

export type Piece = Html | string | number | undefined | readonly Piece[];

const MAX_LENGTH = 4_000;

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Invisible characters are shown as escapes: tenants choose names, and one must not look like another. */
export function html(parts: TemplateStringsArray, ...values: readonly Piece[]): Html {
  const text = parts.map((part, index) => (index === 0 ? part : markup(values[index - 1]) + part)).join('');
  return { kind: 'html', text };
}

function markup(value: Piece): string {
  if (value === undefined) return '';
  if (typeof value === 'number') return String(value);
  if (typeof value === 'string')
    return shorten(value, MAX_LENGTH).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
  return isHtml(value) ? value.text : value.map(markup).join('');
}

const isHtml = (value: Html | readonly Piece[]): value is Html => 'kind' in value;

/** A command with a button that copies it. Only for commands of our own, whose arguments are names of objects. */
export const command = (text: string): Html =>
  html`<span class="command"
    ><code class="mono">${text}</code>
    <button type="button" class="copy" data-text="${text}">Copy</button></span
  >`;

/** May wrap at the borders that long names have: `Mutating|Webhook|Configuration`, `disks.|infra.|example.|com`. */
export function breakable(name: string): Html {
  const parts = name.split(/(?<=[a-z0-9])(?=[A-Z])|(?<=[./])(?=[^./])/);
  return html`${parts.map((part, index) => (index === 0 ? part : html`<wbr />${part}`))}`;
}

/** For constants in our own source, such as a style sheet. Never for input. */
export const trusted = (text: string): Html => ({ kind: 'html', text });
