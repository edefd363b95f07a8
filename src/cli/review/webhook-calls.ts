/** Policies and handlers, asked as the API server asks Gatehouse: by webhook entry, with an AdmissionReview. */
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
import type { Hearing } from './recorder.ts';

export interface AskParts {
  readonly policies: readonly CompiledPolicy[];
  readonly handlers: readonly CompiledHandler[];
  readonly now: Date;
  readonly logFor: (handler: string) => HandlerLog;
}

/** What is known of the cluster while one object is written. */
export interface View {
  readonly world: World;
  readonly handlerWorld: HandlerWorld;
}

/** How the API server calls Gatehouse about one object; what is said of it goes to the hearing. */
export type CallFor = (view: View, hearing: Hearing) => Call;

export function createCalls({ policies, handlers, now, logFor }: AskParts): CallFor {
  const set = buildPolicySet(policies);
  const byName = new Map(handlers.map((handler) => [handler.name, handler]));

  const askPolicies = async (entry: string, question: Question): Promise<Decision> => {
    const { phase, request, signal, view, hearing } = question;
    const selection = set.select(entry, request);
    if (selection.kind !== 'governed') return ALLOWED;
    hearing.ask({ policies: selection.policies.map(({ name }) => name) });
    const circumstances = { world: view.world, signal, now: now.getTime() };
    if (phase === 'mutate') return await mutate(request, selection.policies, circumstances);
    const judge = isDeletionEntry(entry) ? checkTargetDeletion : validate;
    return await judge(request, selection.policies, circumstances);
  };

  const askHandler = async (name: string, question: Question): Promise<Decision> => {
    const { phase, request, signal, view, hearing } = question;
    const handler = byName.get(name);
    if (handler === undefined) return ALLOWED;
    hearing.ask({ handler: name });
    const log = logFor(name);
    const call = { handler, phase, request, world: view.handlerWorld, signal, log };
    const { decision, failure } = await inHandler(name, () => callHandler(call));
    if (failure !== undefined) {
      hearing.fail(`handler ${name} failed: ${String(failure.cause)}`);
      log.error('it failed', { err: failure.cause });
    }
    if (decision !== undefined) return decision;
    throw failure ?? new Error(`handler ${name} neither decided nor failed`);
  };

  return (view, hearing) =>
    async ({ service }, body, timeoutMs) => {
      const [, path = '', entry = ''] = (service?.path ?? '').split('/');
      const phase = path === 'mutate' ? 'mutate' : 'validate';
      const { version, request } = parseReview(body);
      const handler = handlerOfEntry(entry);
      const question = { phase, request, signal: AbortSignal.timeout(timeoutMs), view, hearing } as const;
      const decision =
        handler === undefined ? await askPolicies(entry, question) : await askHandler(handler, question);
      hearing.note(decision);
      const toReview = phase === 'mutate' ? toMutatingReview : toValidatingReview;
      return toReview(version, request, decision) as unknown as JsonValue; // it is what goes over the wire
    };
}

interface Question {
  readonly phase: HandlerPhase;
  readonly request: AdmissionRequest;
  readonly signal: AbortSignal;
  readonly view: View;
  readonly hearing: Hearing;
}
