/** The report of a rehearsal as a table, JSON and JUnit XML. docs/restore.md documents the JSON. */
import { counted } from '../../../json/counted.ts';
import { formatJunit } from '../../review/report/junit.ts';
import { formatJson, formatTable, paint, type Colour } from '../../terminal/output.ts';
import type { Skipped } from '../../../restore/backup/selection.ts';
import { isProblem, type Finding, type Findings } from './findings.ts';
import { describeOutcome, type Outcome } from './replay.ts';
import type { RehearseFlags } from './flags.ts';

export interface Rehearsal extends Findings {
  readonly outcomes: readonly Outcome[];
  /** The number of objects that Velero does not restore, by reason. */
  readonly skipped: ReadonlyMap<Skipped, number>;
  readonly notes: readonly string[];
}

export function formatRehearsal(
  rehearsal: Rehearsal,
  format: RehearseFlags['output'],
  colours: boolean,
): string {
  switch (format) {
    case 'table':
      return table(rehearsal, colours);
    case 'json':
      return formatJson(json(rehearsal));
    case 'junit':
      return junit(rehearsal);
  }
}

/** The table shows so many notes of each reason; JSON has all. */
const NOTES_SHOWN = 5;

function table({ findings, ...rehearsal }: Rehearsal, colours: boolean): string {
  const problems = findings.filter(isProblem);
  const notes = [
    ...Map.groupBy(
      findings.filter((one) => !isProblem(one)),
      ({ reason }) => reason,
    ).values(),
  ];
  const shown = [...problems, ...notes.flatMap((same) => same.slice(0, NOTES_SHOWN))];
  const rows = shown.map(({ severity, reason, object, message }) => ({
    cells: [{ text: reason, colour: colourOf(severity) }, object],
    lines: [message],
  }));
  const more = notes
    .filter(({ length }) => length > NOTES_SHOWN)
    .map((same) => `${same.length - NOTES_SHOWN} more ${same[0]?.reason ?? ''}: -o json lists all`);
  const parts = rows.length === 0 ? [] : [formatTable(['FINDING', 'OBJECT', 'MESSAGE'], rows, colours)];
  const summary = paint(
    { text: summaryOf(rehearsal.outcomes, problems), colour: problems.length === 0 ? 'green' : 'red' },
    colours,
  );
  return `${[...parts, ...more, ...skippedLines(rehearsal), summary].join('\n')}\n`;
}

const colourOf = (severity: Finding['severity']): Colour => (severity === 'problem' ? 'red' : 'yellow');

function summaryOf(outcomes: readonly Outcome[], problems: readonly Finding[]): string {
  const { restored, exists, lost } = countsOf(outcomes);
  return [
    `${counted(restored, 'object')} restored`,
    ...(exists > 0 ? [`${exists} exist already`] : []),
    ...(lost > 0 ? [`${lost} lost`] : []),
    problems.length === 0 ? 'no problems' : counted(problems.length, 'problem'),
  ].join(', ');
}

function countsOf(outcomes: readonly Outcome[]) {
  const count = (...results: readonly Outcome['result'][]) =>
    outcomes.filter(({ result }) => results.includes(result)).length;
  return {
    objects: outcomes.length,
    restored: count('restored', 'incomplete'),
    exists: count('exists', 'different'),
    lost: count('refused', 'unserved'),
  };
}

const skippedLines = ({ skipped }: Pick<Rehearsal, 'skipped'>): readonly string[] =>
  [...skipped].map(([reason, count]) => `${counted(count, 'object')} left out: ${reason}`);

function json({ outcomes, findings, skipped, notes }: Rehearsal): object {
  const problems = findings.filter(isProblem).length;
  return {
    kind: 'Rehearsal',
    summary: {
      ...countsOf(outcomes),
      ...{ problems, notes: findings.length - problems, leftOut: Object.fromEntries(skipped) },
    },
    findings,
    notes,
  };
}

/** One case for each object with findings, and one for all others together. */
function junit({ outcomes, findings }: Rehearsal): string {
  const byObject = Map.groupBy(findings, ({ object }) => object);
  const clean = outcomes.filter((outcome) => !byObject.has(describeOutcome(outcome))).length;
  const cases = [...byObject].map(([name, found]) => {
    const problems = found.filter(isProblem);
    const lines = (some: readonly Finding[]) => some.map(({ reason, message }) => `${reason}: ${message}`);
    const [first] = lines(problems);
    return {
      ...{ name, className: 'restore' },
      ...(first === undefined ? {} : { failure: { message: first, details: lines(problems).join('\n') } }),
      output: lines(found.filter((one) => !isProblem(one))),
    };
  });
  const others = { name: `${counted(clean, 'object')} without findings`, className: 'restore', output: [] };
  return formatJunit([{ name: 'rehearsal', cases: [...cases, others] }]);
}
