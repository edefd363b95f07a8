import { diff } from '../../json/json-diff.ts';
import { toJson, type ApiObject } from '../../sandbox/machinery/api-object.ts';
import type { ApiFailure } from '../../sandbox/machinery/failure.ts';
import type { Mutated } from './api-server.ts';
import type { Said } from './hearing.ts';
import type { Outcome } from './outcome.ts';

/**
 * What all that was said about an object comes to.
 *
 * @param failure what the API server refused it with; undefined when it did not
 */
export function outcomeOf(
  said: Said,
  failure: ApiFailure | undefined,
  change: { readonly before: ApiObject | undefined; readonly result: Mutated | undefined },
): Outcome {
  return failure === undefined ? acceptance(said, change) : refusal(said, failure);
}

function acceptance(
  { policies, handlers, auditAnnotations, ...said }: Said,
  { before, result }: { readonly before: ApiObject | undefined; readonly result: Mutated | undefined },
): Outcome {
  const warnings = [...said.warnings, ...said.failures];
  const asked = policies.length + handlers.length > 0;
  return {
    verdict: warnings.length > 0 ? 'warned' : asked ? 'allowed' : 'unchecked',
    policies,
    handlers,
    messages: [],
    refusal: undefined,
    causes: [],
    warnings,
    auditAnnotations,
    patch: before === undefined || result === undefined ? [] : diff(toJson(before), toJson(result.mutated)),
    object: result === undefined ? undefined : toJson(result.prepared),
  };
}

function refusal(
  { policies, handlers, auditAnnotations, warnings, denials, failures }: Said,
  failure: ApiFailure,
): Outcome {
  const [first] = denials;
  const { code, reason = '', details } = failure.status;
  const byServer = first === undefined && failures.length === 0;
  return {
    verdict: 'denied',
    policies,
    handlers,
    // All of them; the API server shows its user the first alone. What it says of a handler that failed does not say why.
    messages: [...(byServer ? [failure.message] : denials.map(({ message }) => message)), ...failures],
    refusal: { code: first?.code ?? code, reason: first?.reason ?? reason },
    causes: byServer
      ? (details?.causes ?? []).map(({ field = '', message }) => ({ field, message }))
      : denials.flatMap(({ causes }) => causes.map(({ field, message }) => ({ field, message }))),
    warnings,
    auditAnnotations,
    patch: [],
    object: undefined,
  };
}
