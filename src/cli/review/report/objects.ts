/** Reviewed objects as a table, as JSON and as JUnit XML. docs/review.md promises the shape of the JSON. */
import { stringifyJson } from '../../../json/json.ts';
import { describePlace } from '../documents.ts';
import { describeIdentity, type Outcome, type Reviewed, type Verdict } from '../review-result.ts';
import type { JunitCase, JunitSuite } from './junit.ts';
import { formatTable, paint, type Colour, type Row } from '../../terminal/output.ts';

export interface TableOptions {
  readonly colours: boolean;
  readonly showPatch: boolean;
}

const COLOURS: Readonly<Record<Verdict, Colour>> = {
  allowed: 'green',
  warned: 'yellow',
  denied: 'red',
  unchecked: 'grey',
};

export function objectsTable(reviewed: readonly Reviewed[], options: TableOptions): string {
  const rows = reviewed.map(({ identity, outcome }): Row => {
    const { verdict, policies, handlers } = outcome;
    return {
      cells: [
        { text: describeIdentity(identity) },
        { text: verdict, colour: COLOURS[verdict] },
        { text: [...policies, ...handlers.map((name) => `${name} (handler)`)].join(', ') },
      ],
      lines: outcomeLines(outcome, options.showPatch),
    };
  });
  const table = formatTable(['OBJECT', 'DECISION', 'POLICIES', 'MESSAGE'], rows, options.colours);
  return `${table}\n\n${totals(reviewed, options.colours)}\n`;
}

/** What is said of an object, a line each. */
export function outcomeLines(
  { messages, warnings, auditAnnotations, patch }: Outcome,
  showPatch: boolean,
): readonly string[] {
  const { violations } = auditAnnotations;
  return [
    ...messages,
    ...warnings.map((text) => `warning: ${text}`),
    ...(violations === undefined ? [] : [`audit: ${violations}`]),
    ...(showPatch ? patch.map((operation) => `patch: ${stringifyJson(operation)}`) : []),
  ];
}

function totals(reviewed: readonly Reviewed[], colours: boolean): string {
  const parts = Object.entries(summaryOf(reviewed))
    .filter(([name, count]) => name !== 'objects' && count > 0)
    .map(([name, count]) => paint({ text: `${count} ${name}`, colour: COLOURS[name as Verdict] }, colours)); // all but one are verdicts
  return `${reviewed.length} ${reviewed.length === 1 ? 'object' : 'objects'}: ${parts.join(', ')}`;
}

function summaryOf(reviewed: readonly Reviewed[]): Readonly<Record<'objects' | Verdict, number>> {
  const count = (verdict: Verdict) => reviewed.filter(({ outcome }) => outcome.verdict === verdict).length;
  return {
    objects: reviewed.length,
    denied: count('denied'),
    warned: count('warned'),
    allowed: count('allowed'),
    unchecked: count('unchecked'),
  };
}

export function objectsJson(reviewed: readonly Reviewed[], notes: readonly string[]): object {
  return { kind: 'Review', summary: summaryOf(reviewed), notes, results: reviewed.map(resultJson) };
}

export function resultJson({ identity, place, operation, outcome }: Reviewed): object {
  const { verdict, policies, handlers, messages, refusal, causes, warnings, auditAnnotations, patch } =
    outcome;
  return {
    object: identity,
    ...(place === undefined ? {} : { source: place }),
    operation,
    decision: verdict,
    policies,
    handlers,
    ...(refusal === undefined ? {} : { message: messages.join('; '), ...refusal, causes }),
    warnings,
    auditAnnotations,
    patch,
  };
}

export function objectsJunit(reviewed: readonly Reviewed[]): readonly JunitSuite[] {
  return [{ name: 'gatehouse review', cases: reviewed.map(toCase) }];
}

function toCase({ identity, place, outcome }: Reviewed): JunitCase {
  const { verdict, messages, warnings } = outcome;
  const base = {
    name: describeIdentity(identity),
    className: place?.file ?? 'gatehouse review',
    ...(place === undefined ? {} : { file: place.file }),
    output: warnings.map((text) => `warning: ${text}`),
  };
  switch (verdict) {
    case 'denied': {
      const where = place === undefined ? [] : [`at ${describePlace(place)}`];
      const details = [...messages, ...where].join('\n');
      return { ...base, result: { kind: 'failed', message: messages.join('; '), details } };
    }
    case 'unchecked':
      return { ...base, result: { kind: 'skipped', message: 'no policy and no handler is asked about it' } };
    case 'allowed':
    case 'warned':
      return { ...base, result: { kind: 'passed' } };
  }
}
