/** One line on standard error that says how far something is; for people who look on, so never in a pipe or a file. */
import { printable } from '../../json/printable.ts';
import { hasColours, paint } from './output.ts';

/** How far it is. */
export interface Progress {
  /** What is done at the moment, e.g. `servers.infra.example.com`. */
  readonly what: string;
  readonly done: number;
  /** How much there is to do, about; undefined where nobody knows. */
  readonly total?: number | undefined;
}

export interface ProgressLine {
  /** Whether there is somebody to see it: what is only found out for the line need not be otherwise. */
  readonly isShown: boolean;
  /** Shows this in the place of what was shown before. */
  readonly show: (progress: Progress) => void;
  /** Takes the line away: before anything else is printed, and at the end. It may be shown again. */
  readonly clear: () => void;
}

/** The part of a stream of Node that is used. */
export interface Screen {
  readonly isTTY?: boolean | undefined;
  readonly columns?: number | undefined;
  readonly write: (text: string) => unknown;
}

interface ProgressOptions {
  readonly colours: boolean;
  /** Milliseconds, of any beginning. */
  readonly now: () => number;
}

/** More often nobody can read it, and each line is work for the terminal: milliseconds. */
const SHOWN_EVERY_MS = 100;
const BAR_WIDTH = 24;
/** Where a terminal does not say. */
const COLUMNS = 80;

/** Writes nothing where `screen` is no terminal. */
export function createProgressLine(screen: Screen, { colours, now }: ProgressOptions): ProgressLine {
  let shownAt: number | undefined;
  if (screen.isTTY !== true) return { isShown: false, show: () => undefined, clear: () => undefined };
  return {
    isShown: true,
    show: (progress) => {
      const time = now();
      if (shownAt !== undefined && time - shownAt < SHOWN_EVERY_MS) return;
      shownAt = time;
      screen.write(`\r${formatProgress(progress, widthOf(screen), colours)}\u001b[K`);
    },
    clear: () => {
      if (shownAt === undefined) return;
      shownAt = undefined;
      screen.write('\r\u001b[K');
    },
  };
}

/** Without the last column: a terminal that is written full goes to its next line. */
const widthOf = ({ columns = COLUMNS }: Screen): number => Math.max(columns - 1, 1);

/** @param width in columns; what is longer is cut off, for a second line could not be taken away */
export function formatProgress({ what, done, total }: Progress, width: number, colours: boolean): string {
  const name = printable(what);
  if (total === undefined || total < done) return `${number(done)} objects  ${name}`.slice(0, width);
  const share = total === 0 ? 1 : done / total;
  const filled = Math.floor(share * BAR_WIDTH);
  const bar = `${'='.repeat(filled)}${' '.repeat(BAR_WIDTH - filled)}`;
  const percent = `${Math.floor(share * 100)}%`.padStart(5);
  const words = `${percent}  ${number(done)} of ${number(total)} objects  ${name}`;
  if (width < BAR_WIDTH + 2 + words.length / 2) return words.trimStart().slice(0, width);
  const shownBar = paint({ text: bar, colour: 'green' }, colours);
  return `[${shownBar}]${words.slice(0, width - BAR_WIDTH - 2)}`;
}

const number = (value: number): string => value.toLocaleString('en');

/**
 * The line of this process, on its standard error, while `work` goes on. It is gone when `work` ends, and when Ctrl-C ends the
 * process.
 */
export async function withProgress<T>(work: (line: ProgressLine) => Promise<T>): Promise<T> {
  const line = createProgressLine(process.stderr, {
    colours: hasColours(process.stderr),
    now: () => performance.now(),
  });
  const signals = ['SIGINT', 'SIGTERM'] as const;
  const ended = (signal: NodeJS.Signals) => {
    line.clear();
    for (const one of signals) process.off(one, ended);
    process.kill(process.pid, signal); // as if nobody had listened: whoever waits for us sees by what we ended
  };
  for (const one of signals) process.on(one, ended);
  try {
    return await work(line);
  } finally {
    for (const one of signals) process.off(one, ended);
    line.clear();
  }
}
