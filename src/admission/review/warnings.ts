/** The API server cuts a warning here once it holds too many; cut by us, it ends where we say. In characters. */
const LONGEST_WARNING = 256;
/** What the API server keeps of all warnings to one request, from all webhooks together. In bytes. */
const MOST_BYTES = 4096;

/** Control characters have the API server drop the whole warning; the invisible ones could make it say something else. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * Warnings as the API server passes them on: single lines of printable characters, each once, none too long.
 *
 * @see k8s.io/apimachinery/pkg/util/net NewWarningHeader, k8s.io/apiserver/pkg/endpoints/filters/warning.go
 */
export function sanitiseWarnings(warnings: readonly string[]): readonly string[] {
  if (warnings.length === 0) return warnings;
  const lines = new Set(warnings.flatMap((warning) => warning.split(/[\r\n]+/)).map(toLine));
  lines.delete('');
  const kept: string[] = [];
  let bytes = 0;
  for (const line of lines) {
    const size = Buffer.byteLength(line);
    const rest = `${lines.size - kept.length} more warnings are not shown`;
    const isLast = kept.length === lines.size - 1;
    if (bytes + size + (isLast ? 0 : rest.length) > MOST_BYTES) return [...kept, rest];
    bytes += size;
    kept.push(line);
  }
  return kept;
}

function toLine(text: string): string {
  const printable = text.toWellFormed().replaceAll('\t', ' ').replace(UNPRINTABLE, '').trim();
  const characters = Array.from(printable.slice(0, 2 * LONGEST_WARNING + 2));
  if (characters.length <= LONGEST_WARNING) return printable;
  return `${characters.slice(0, LONGEST_WARNING - 1).join('')}…`;
}
