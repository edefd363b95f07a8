/** Markdown of texts that a backup or a cluster contains. */
import { printable } from '../../json/printable.ts';
import type { RestoreChoices } from './facts.ts';

/** A code span. A backup can contain any name, so backticks and line breaks are removed. */
export const code = (text: string): string => `\`${printable(text).replaceAll('`', "'")}\``;

/** `a`, `b` and 3 more. */
export function codes(names: readonly string[], most = 8): string {
  const shown = names.slice(0, most).map(code).join(', ');
  return names.length > most ? `${shown} and ${names.length - most} more` : shown;
}

export const table = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`)
    .join('\n');

type Connection = Pick<RestoreChoices, 'kubeconfig' | 'context'>;

/** A block of commands, one per line, for the cluster of this connection. */
export const commands = (connection: Connection, ...lines: readonly (readonly string[])[]): string =>
  [
    '```shell',
    ...lines.map((words) => [...words, ...connectionFlags(connection, words[0])].map(word).join(' ')),
    '```',
  ].join('\n');

/** Without the flags of the user, a command would act on the cluster of the current context. */
const connectionFlags = ({ kubeconfig, context }: Connection, program: string | undefined) => [
  ...(kubeconfig === undefined ? [] : ['--kubeconfig', kubeconfig]),
  ...(context === undefined ? [] : [program === 'velero' ? '--kubecontext' : '--context', context]),
];

/** Quotes a word for a POSIX shell where necessary. */
function word(text: string): string {
  const shown = printable(text);
  return /^[\w@%+=:,./-]+$/.test(shown) ? shown : `'${shown.replaceAll("'", String.raw`'\''`)}'`;
}
