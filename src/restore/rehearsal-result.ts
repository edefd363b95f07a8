/** The result of the scheduled rehearsal: the content of a ConfigMap, from which the leader takes metrics. */
import { counted } from '../json/counted.ts';
import { printable } from '../json/printable.ts';

export const REHEARSAL_CONFIGMAP = 'gatehouse-restore-rehearsal';

interface RehearsalResult {
  readonly finishedAt: Date;
  readonly backup: string;
  readonly backupTakenAt: Date;
  /** E.g. `Refused servers.infra.example.com shop/db`, sorted. At most `MOST_LINES`. */
  readonly problems: readonly string[];
  readonly total: number;
  /** 0 for the first rehearsal. */
  readonly added: number;
}

type Data = Readonly<Record<string, string>>;

const MOST_LINES = 5_000;
/** Half of what a ConfigMap can hold: names in a backup can be long. */
const MOST_BYTES = 2 ** 19;
const SHOWN = 5;

export function rehearsalResult(
  { problems, ...run }: Pick<RehearsalResult, 'finishedAt' | 'backup' | 'backupTakenAt' | 'problems'>,
  before: RehearsalResult | undefined,
): RehearsalResult {
  const sorted = [...new Set(problems.map(printable))].toSorted();
  const added = before === undefined ? 0 : addedTo(before, sorted).length;
  return { ...run, problems: fitting(sorted), total: sorted.length, added };
}

function fitting(lines: readonly string[]): readonly string[] {
  let bytes = 0;
  const over = lines.findIndex((line) => (bytes += Buffer.byteLength(line) + 1) > MOST_BYTES);
  return lines.slice(0, over < 0 ? MOST_LINES : Math.min(over, MOST_LINES));
}

/** The lines that `before` lacks. Of a cut list, only the number is comparable. */
function addedTo({ problems, total }: RehearsalResult, sorted: readonly string[]): readonly string[] {
  if (total > problems.length) return sorted.slice(total);
  const known = new Set(problems);
  return sorted.filter((line) => !known.has(line));
}

export const toData = (result: RehearsalResult): Data => ({
  finishedAt: result.finishedAt.toISOString(),
  backup: result.backup,
  backupTakenAt: result.backupTakenAt.toISOString(),
  problems: String(result.total),
  newProblems: String(result.added),
  list: result.problems.map((line) => `${line}\n`).join(''),
});

/** Undefined if there is no result yet, or if a user has edited it into something else. */
export function parseData(data: Data = {}): RehearsalResult | undefined {
  const numberIn = (text = '') => (text === '' ? NaN : Number(text));
  const result = {
    finishedAt: new Date(data.finishedAt ?? ''),
    backup: data.backup ?? '',
    backupTakenAt: new Date(data.backupTakenAt ?? ''),
    problems: (data.list ?? '').split('\n').filter((line) => line !== ''),
    total: numberIn(data.problems),
    added: numberIn(data.newProblems),
  };
  const numbers = [result.finishedAt.getTime(), result.backupTakenAt.getTime(), result.total, result.added];
  return numbers.every(Number.isSafeInteger) ? result : undefined;
}

interface RehearsalNote {
  readonly type: 'Normal' | 'Warning';
  readonly reason: 'RehearsalWorse' | 'RehearsalProblems' | 'RehearsalClean';
  readonly message: string;
}

/** Undefined if nothing has become worse. */
export function noteOf(
  result: RehearsalResult,
  before: RehearsalResult | undefined,
): RehearsalNote | undefined {
  const { backup, total, added } = result;
  if (total === 0 && before?.total === 0) return undefined;
  const clean = `a restore of ${backup} would succeed without problems`;
  if (total === 0) return { type: 'Normal', reason: 'RehearsalClean', message: clean };
  if (before === undefined)
    return warning('RehearsalProblems', counted(total, 'problem'), backup, result.problems);
  if (added === 0) return undefined;
  const lines = addedTo(before, result.problems);
  return warning('RehearsalWorse', counted(added, 'new problem'), backup, lines);
}

const warning = (
  reason: RehearsalNote['reason'],
  what: string,
  backup: string,
  lines: readonly string[],
): RehearsalNote => ({
  type: 'Warning',
  reason,
  message: `a restore of ${backup} would have ${what}${lines.length > 0 ? ': ' : ''}${lines.slice(0, SHOWN).join(', ')}${lines.length > SHOWN ? ', …' : ''}`,
});
