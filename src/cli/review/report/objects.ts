/** Reviewed objects as a table, JSON and JUnit XML. docs/review.md documents the JSON. */
import { stringifyJson } from '../../../json/json.ts';
import { describePlace } from '../documents.ts';
import { describeIdentity, type ReviewResult, type ReviewedObject, type Verdict } from '../review-result.ts';
import type { JunitCase, JunitSuite } from './junit.ts';
import { formatTable, paint, type Row } from '../../terminal/output.ts';

export interface TableOptions {
  readonly colours: boolean;
  readonly showPatch: boolean;
}

const VERDICTS = ['denied', 'warned', 'allowed', 'unchecked'] as const;
const COLOURS = { denied: 'red', warned: 'yellow', allowed: 'green', unchecked: 'grey' } as const;

export function objectsTable(reviewed: readonly ReviewedObject[], options: TableOptions): string {
  const rows = reviewed.map(({ identity, result }): Row => {
    const { verdict, policies, handlers } = result;
    return {
      cells: [
        describeIdentity(identity),
        { text: verdict, colour: COLOURS[verdict] },
        [...policies, ...handlers.map((name) => `${name} (handler)`)].join(', '),
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
  const parts = VERDICTS.map((verdict) => ({ verdict, count: countOf(reviewed, verdict) }))
    .filter(({ count }) => count > 0)
    .map(({ verdict, count }) => paint({ text: `${count} ${verdict}`, colour: COLOURS[verdict] }, colours));
  return `${reviewed.length} ${reviewed.length === 1 ? 'object' : 'objects'}: ${parts.join(', ')}`;
}

const countOf = (reviewed: readonly ReviewedObject[], verdict: Verdict): number =>
  reviewed.filter(({ result }) => result.verdict === verdict).length;

export function objectsJson(reviewed: readonly ReviewedObject[], notes: readonly string[]): object {
  const counts = VERDICTS.map((verdict) => [verdict, countOf(reviewed, verdict)] as const);
  const summary = { objects: reviewed.length, ...Object.fromEntries<number>(counts) };
  return { kind: 'Review', summary, notes, results: reviewed.map(resultJson) };
}

export function resultJson({ identity, place, operation, result }: ReviewedObject): object {
  const { verdict, policies, handlers, warnings, auditAnnotations, patch } = result;
  const { messages, refusal, causes } = result;
  return {
    object: identity,
    source: place,
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
  return {
    name: describeIdentity(identity),
    className: place.file,
    file: place.file,
    output: warnings.map((text) => `warning: ${text}`),
    ...(verdict === 'denied'
      ? {
          failure: {
            message: messages.join('; '),
            details: [...messages, `at ${describePlace(place)}`].join('\n'),
          },
        }
      : {}),
    ...(verdict === 'unchecked' ? { skipped: 'no policy and no handler applies' } : {}),
  };
}
