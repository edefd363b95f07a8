/** Reviewed objects as a table, JSON and JUnit XML. docs/review.md documents the JSON. */
import { stringifyJson } from '../../../json/json.ts';
import { describePlace } from '../documents.ts';
import { describeIdentity, type ReviewResult, type ReviewedObject, type Verdict } from '../review-result.ts';
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

export function objectsTable(reviewed: readonly ReviewedObject[], options: TableOptions): string {
  const rows = reviewed.map(({ identity, result }): Row => {
    const { verdict, policies, handlers } = result;
    return {
      cells: [
        { text: describeIdentity(identity) },
        { text: verdict, colour: COLOURS[verdict] },
        { text: [...policies, ...handlers.map((name) => `${name} (handler)`)].join(', ') },
      ],
      lines: resultLines(result, options.showPatch),
    };
  });
  const table = formatTable(['OBJECT', 'DECISION', 'POLICIES', 'MESSAGE'], rows, options.colours);
  return `${table}\n\n${totals(reviewed, options.colours)}\n`;
}

/** The messages about an object, one per line. */
export function resultLines(
  { messages, warnings, auditAnnotations, patch }: ReviewResult,
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

function totals(reviewed: readonly ReviewedObject[], colours: boolean): string {
  const parts = Object.entries(summaryOf(reviewed))
    .filter(([name, count]) => name !== 'objects' && count > 0)
    // All keys but `objects` are verdicts.
    .map(([name, count]) => paint({ text: `${count} ${name}`, colour: COLOURS[name as Verdict] }, colours));
  return `${reviewed.length} ${reviewed.length === 1 ? 'object' : 'objects'}: ${parts.join(', ')}`;
}

function summaryOf(reviewed: readonly ReviewedObject[]): Readonly<Record<'objects' | Verdict, number>> {
  const count = (verdict: Verdict) => reviewed.filter(({ result }) => result.verdict === verdict).length;
  return {
    objects: reviewed.length,
    denied: count('denied'),
    warned: count('warned'),
    allowed: count('allowed'),
    unchecked: count('unchecked'),
  };
}

export function objectsJson(reviewed: readonly ReviewedObject[], notes: readonly string[]): object {
  return { kind: 'Review', summary: summaryOf(reviewed), notes, results: reviewed.map(resultJson) };
}

export function resultJson({ identity, place, operation, result }: ReviewedObject): object {
  const { verdict, policies, handlers, messages, refusal, causes, warnings, auditAnnotations, patch } =
    result;
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

export function objectsJunit(reviewed: readonly ReviewedObject[]): readonly JunitSuite[] {
  return [{ name: 'gatehouse review', cases: reviewed.map(toCase) }];
}

function toCase({ identity, place, result }: ReviewedObject): JunitCase {
  const { verdict, messages, warnings } = result;
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
      return { ...base, result: { kind: 'skipped', message: 'no policy and no handler applies' } };
    case 'allowed':
    case 'warned':
      return { ...base, result: { kind: 'passed' } };
  }
}
