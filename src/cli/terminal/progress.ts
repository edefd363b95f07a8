/** A progress line on standard error. Shown on terminals only, never in a pipe or a file. */
import { printable } from '../../json/printable.ts';
import { hasColours, paint } from './output.ts';

export interface Progress {
  readonly what: string;
  readonly done: number;
  readonly total?: number | undefined;
}

export type ProgressLine = ReturnType<typeof createProgressLine>;

const INTERVAL_MS = 100;
const BAR_WIDTH = 24;
const DEFAULT_COLUMNS = 80;

function createProgressLine(screen: typeof process.stderr) {
  let shownAt: number | undefined;
  return {
    /** If false, callers can skip work for the line. */
    isShown: screen.isTTY,
    show: (progress: Progress) => {
      const now = performance.now();
      if (!screen.isTTY || (shownAt !== undefined && now - shownAt < INTERVAL_MS)) return;
      shownAt = now;
      // Without the last column: many terminals wrap when it is written.
      const width = Math.max((screen.columns || DEFAULT_COLUMNS) - 1, 1);
      screen.write(`\r${formatProgress(progress, width, hasColours(screen))}\u001b[K`);
    },
    clear: () => {
      if (shownAt !== undefined) screen.write('\r\u001b[K');
      shownAt = undefined;
    },
  };
}

/** @param width in columns; longer text is truncated, because a second line could not be removed */
export function formatProgress({ what, done, total }: Progress, width: number, colours: boolean): string {
  const name = printable(what);
  if (total === undefined || total < done)
    return `${number(done)} ${done === 1 ? 'object' : 'objects'}  ${name}`.slice(0, width);
  const share = total === 0 ? 1 : done / total;
  const filled = Math.floor(share * BAR_WIDTH);
  const bar = `${'='.repeat(filled)}${' '.repeat(BAR_WIDTH - filled)}`;
  const percent = `${Math.floor(share * 100)}%`.padStart(5);
  const words = `${percent}  ${number(done)} of ${number(total)} objects  ${name}`;
  if (width < BAR_WIDTH + 2 + words.length / 2) return words.trimStart().slice(0, width);
  const shownBar = paint({ text: bar, tone: 'good' }, colours);
  return `[${shownBar}]${words.slice(0, width - BAR_WIDTH - 2)}`;
}

const number = (value: number): string => value.toLocaleString('en');

/** Removes the line at the end, even when Ctrl+C ends the process. */
export async function withProgress<T>(work: (line: ProgressLine) => Promise<T>): Promise<T> {
  const line = createProgressLine(process.stderr);
  const signals = ['SIGINT', 'SIGTERM'] as const;
  const ended = (signal: NodeJS.Signals) => {
    line.clear();
    for (const one of signals) process.off(one, ended);
    process.kill(process.pid, signal); // restores the default action, so that the parent sees the signal
  };
  for (const one of signals) process.on(one, ended);
  try {
    return await work(line);
  } finally {
    for (const one of signals) process.off(one, ended);
    line.clear();
  }
}
