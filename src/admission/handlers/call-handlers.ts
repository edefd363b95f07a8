/** Several handlers about one request, as the API server would ask them one by one. */
import { ALLOWED, type Decision } from '../decision.ts';
import { verifiedDiff } from '../json-diff.ts';
import type { JsonObject } from '../json.ts';
import { callHandler, type HandlerCall } from './call-handler.ts';
import type { CompiledHandler } from './compile-handler.ts';
import type { HandlerFailure } from './failure.ts';

export interface HandlersCall extends Omit<HandlerCall, 'handler'> {
  /** In the order in which they are asked. */
  readonly handlers: readonly CompiledHandler[];
}

export interface HandlersOutcome {
  /** Undefined: one failed, and the API server's failurePolicy is to judge. */
  readonly decision: Decision | undefined;
  /** What became of the object; as it was when anyone refused or failed. */
  readonly object: JsonObject | undefined;
  readonly failures: readonly HandlerFailure[];
}

/**
 * Each sees what those before it made of the object. A refusal of any wins, then a failure that the API server is to judge, then a
 * retry; there is one patch for all, and none unless all accept. Warnings and annotations are those of all.
 */
export async function callHandlers({ handlers, ...call }: HandlersCall): Promise<HandlersOutcome> {
  const before = call.object ?? call.request.object;
  let object: JsonObject | undefined = before;
  const decisions: (Decision | undefined)[] = [];
  const failures: HandlerFailure[] = [];
  for (const handler of handlers) {
    const outcome = await callHandler({ ...call, handler, ...(object === undefined ? {} : { object }) });
    object = outcome.object;
    decisions.push(outcome.decision);
    if (outcome.failure !== undefined) failures.push(outcome.failure);
    // The others would judge an object that nobody has agreed to.
    if (call.phase === 'mutate' && outcome.decision?.kind !== 'allow') break;
  }
  const decision = merge(decisions);
  if (decision?.kind !== 'allow') return { decision, object: before, failures };
  const patch = before === undefined || object === undefined ? [] : verifiedDiff(before, object);
  return { decision: { ...decision, patch }, object, failures };
}

function merge(decisions: readonly (Decision | undefined)[]): Decision | undefined {
  const verdicts = decisions.filter((decision) => decision?.kind === 'allow' || decision?.kind === 'deny');
  const warnings = verdicts.flatMap((verdict) => verdict.warnings);
  const auditAnnotations = Object.assign(
    {},
    ...verdicts.map((verdict) => verdict.auditAnnotations),
  ) as Record<string, string>; // of records of strings
  const denials = verdicts.filter(({ kind }) => kind === 'deny');
  const [denial] = denials;
  if (denial?.kind === 'deny') {
    const causes = denials.flatMap((one) => (one.kind === 'deny' ? one.causes : []));
    const message = denials.flatMap((one) => (one.kind === 'deny' ? [one.message] : [])).join('; ');
    return { ...denial, message, causes, warnings, auditAnnotations };
  }
  if (decisions.includes(undefined)) return undefined;
  return (
    decisions.find((decision) => decision?.kind === 'retry') ?? { ...ALLOWED, warnings, auditAnnotations }
  );
}
