import { escapeControls } from '../../../json/printable.ts';

/** Indented, for people too, whose terminal nothing in it steers. An integer beyond 2^53 is written as it is. */
export function formatJson(report: object): string {
  const text = JSON.stringify(
    report,
    (_key, value: unknown) => (typeof value === 'bigint' ? JSON.rawJSON(value.toString()) : value),
    2,
  );
  return `${escapeControls(text)}\n`;
}
