/** HTML that nobody but the author of a template can write: whatever is put into one is escaped. */
import { shorten } from '../../json/printable.ts';

/** Text that is HTML already. Made by {@link html} alone. */
export interface Html {
  readonly kind: 'html';
  readonly text: string;
}

export type Piece = Html | string | number | undefined | readonly Piece[];

/** Longer than any message that helps. */
const LONGEST = 4_000;

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/**
 * A template whose values become text, between tags and in quoted attributes alike. Invisible and direction-changing characters
 * are shown as escapes: names are what tenants chose, and must not pass for others.
 */
export function html(parts: TemplateStringsArray, ...values: readonly Piece[]): Html {
  const text = parts.map((part, index) => (index === 0 ? part : textOf(values[index - 1]) + part)).join('');
  return { kind: 'html', text };
}

function textOf(value: Piece): string {
  if (value === undefined) return '';
  if (typeof value === 'number') return String(value);
  if (typeof value === 'string')
    return shorten(value, LONGEST).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
  return isHtml(value) ? value.text : value.map(textOf).join('');
}

const isHtml = (value: Html | readonly Piece[]): value is Html => 'kind' in value;

/** A constant of ours, such as a style sheet. Never for what comes from elsewhere. */
export const trusted = (text: string): Html => ({ kind: 'html', text });
