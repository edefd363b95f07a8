/** Calls policies and handlers as the API server calls Gatehouse: by webhook entry, with an AdmissionReview. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { ALLOWED, type Decision } from '../../admission/review/decision.ts';
import { isDeletionEntry } from '../../admission/webhooks/policy-entries.ts';
import { callHandler } from '../../admission/handlers/call-handler.ts';
import type { HandlerPhase } from '../../admission/handlers/handler-decision.ts';
import { handlerOfEntry, type CompiledHandler } from '../../admission/handlers/compile-handler.ts';
import type { HandlerLog } from '../../admission/handlers/handler.ts';
import type { HandlerWorld } from '../../admission/handlers/handler-world.ts';
import type { JsonValue } from '../../json/json.ts';
import { mutate } from '../../admission/policy/mutate.ts';
import { buildPolicySet } from '../../admission/policy/policy-set.ts';
import type { AdmissionRequest } from '../../admission/review/request.ts';
import { checkTargetDeletion } from '../../admission/policy/references/check-target-deletion.ts';
import { parseReview, toMutatingReview, toValidatingReview } from '../../admission/review/review.ts';
import { validate } from '../../admission/policy/validate.ts';
import type { World } from '../../admission/policy/world.ts';
import { inHandler } from '../../runtime/handlers/stray-errors.ts';
import type { Call } from './api-server.ts';
import { recordDecision, type Recording } from './review-result.ts';

/** The state of the cluster while one object is written. */
export interface View {
  readonly world: World;
  readonly handlerWorld: HandlerWorld;
}

/** Returns the webhook caller for one object. Decisions go to the record. */
export function createCalls(
  policies: readonly CompiledPolicy[],
  handlers: readonly CompiledHandler[],
  logFor: (handler: string) => HandlerLog,
  now: Date,
): (view: View, record: Recording) => Call {
  const set = buildPolicySet(policies);
  const byName = new Map(handlers.map((handler) => [handler.name, handler]));

  const callPolicies = async (entry: string, call: WebhookCall): Promise<Decision> => {
    const { phase, request, signal, world, record } = call;
    const selection = set.select(entry, request);
    if (selection.kind !== 'governed') return ALLOWED;
    for (const { name } of selection.policies) record.policies.add(name);
    const judge = phase === 'mutate' ? mutate : isDeletionEntry(entry) ? checkTargetDeletion : validate;
    return await judge(request, selection.policies, { world, signal, now: now.getTime() });
  };

  const runHandler = async (name: string, call: WebhookCall): Promise<Decision> => {
    const { phase, request, signal, handlerWorld: world, record } = call;
    const handler = byName.get(name);
    if (handler === undefined) return ALLOWED;
    record.handlers.add(name);
    const log = logFor(name);
    const { decision, failure } = await inHandler(name, () =>
      callHandler({ handler, phase, request, world, signal, log }),
    );
    if (failure === undefined) return decision;
    log.error('handler failed', { err: failure.cause });
    const message = `handler ${name} failed: ${String(failure.cause)}`;
    // A user of the command sees the cause; users of a cluster are referred to the log.
    if (decision.kind === 'deny' && decision.message === failure.message) return { ...decision, message };
    record.failures.push(message);
    return decision;
  };

  return (view, record) =>
    async ({ service }, body, timeoutMs) => {
      const [, path = '', entry = ''] = (service?.path ?? '').split('/');
      const phase = path === 'mutate' ? 'mutate' : 'validate';
      const request = parseReview(body);
      const handler = handlerOfEntry(entry);
      const call: WebhookCall = { ...view, phase, request, record, signal: AbortSignal.timeout(timeoutMs) };
      const decision = await (handler === undefined ? callPolicies(entry, call) : runHandler(handler, call));
      recordDecision(record, decision);
      const toReview = phase === 'mutate' ? toMutatingReview : toValidatingReview;
      return toReview(request, decision) as unknown as JsonValue; // the review is JSON
    };
}

interface WebhookCall extends View {
  readonly phase: HandlerPhase;
  readonly request: AdmissionRequest;
  readonly signal: AbortSignal;
  readonly record: Recording;
}
