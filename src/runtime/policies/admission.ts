/** Routes an admission request to the policies or the handler of its webhook entry. */
import { ALLOWED, type Decision } from '../../admission/review/decision.ts';
import { judgedByWebhook, NO_RELEASES, type ReleaseOf } from '../../admission/native/release.ts';
import { isDeletionEntry, isOwnEntry, PAUSE_ENTRY } from '../../admission/webhooks/protect-own-kinds.ts';
import type { HandlerPhase } from '../../admission/handlers/handler-decision.ts';
import { handlerOfEntry } from '../../admission/handlers/compile-handler.ts';
import { confirmingExceptions } from '../../admission/policy/exceptions/exceptions.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { mutate } from '../../admission/policy/mutate.ts';
import type { AdmissionRequest } from '../../admission/review/request.ts';
import { changesOnlyOwners } from '../../admission/policy/owners/owners.ts';
import { checkTargetDeletion } from '../../admission/policy/references/check-target-deletion.ts';
import { refuseUndecidable, withinNamespaces, withUnevaluated } from '../../admission/policy/undecidable.ts';
import { validate } from '../../admission/policy/validate.ts';
import type { RequestWorld } from '../../admission/policy/world.ts';
import type { PolicyRegistry } from './policy-registry.ts';
import type { WebhookServerOptions } from '../../server/webhook-server.ts';
import type { Namespaces } from '../namespaces.ts';
import type { Handlers } from '../handlers/handlers.ts';
import type { PauseWrites } from '../restores/quiesce/pause-writes.ts';
import type { OwnKinds } from '../webhooks/own-kinds.ts';

const validateWrite = confirmingExceptions(validate, ({ namespace }) => namespace);
const checkDeletion = confirmingExceptions(checkTargetDeletion, () => undefined);

type Decide = (policies: readonly CompiledPolicy[]) => Decision | Promise<Decision>;

export function createAdmission(
  registry: PolicyRegistry,
  world: RequestWorld,
  handlers?: Pick<Handlers, 'decide'>,
  /** In milliseconds since 1970, by the clock of the API server, on which replicas agree. */
  now: () => number = Date.now,
  ownKinds?: OwnKinds & { readonly pause?: PauseWrites },
  namespaces?: Namespaces,
  releaseOf: ReleaseOf = NO_RELEASES,
): Pick<WebhookServerOptions, 'mutate' | 'validate'> {
  const governing = (phase: HandlerPhase, entry: string, request: AdmissionRequest) => {
    const selection = registry.policySet().select(entry, request);
    if (selection.kind === 'governed') {
      // The stores contain all objects that protect a target: references in other namespaces protect none.
      if (isDeletionEntry(entry)) return selection.policies;
      return withinNamespaces(phase, namespaces, request, selection.policies).map((policy) =>
        judgedByWebhook(policy, releaseOf(policy), request),
      );
    }
    return registry.wasRetired(entry, request) ? [] : undefined;
  };
  const callHandler = async (
    phase: HandlerPhase,
    name: string,
    request: AdmissionRequest,
    signal: AbortSignal,
  ): Promise<Decision> => (await handlers?.decide(phase, name, request, signal)) ?? unknownHandler(name);
  // Not async: a promise for a decision without I/O would cost each review a timer and another turn of the event loop.
  const route = (
    phase: HandlerPhase,
    entry: string,
    request: AdmissionRequest,
    signal: AbortSignal,
    decide: Decide,
  ): Decision | Promise<Decision> => {
    if (isOwnEntry(entry)) return ownKinds?.[phase](request, signal) ?? ALLOWED;
    // The sweep after a restore links owners of objects that may violate a check that was deferred.
    if (world.owners?.isOurs(request.userInfo.username) === true && changesOnlyOwners(request))
      return ALLOWED;
    const handler = handlerOfEntry(entry);
    if (handler !== undefined) return callHandler(phase, handler, request, signal);
    const policies = governing(phase, entry, request);
    if (policies === undefined) return unknownEntry(entry);
    if (policies.length === 0) return ALLOWED;
    return decideUnlessUndecidable(phase, request, policies, decide);
  };
  return {
    mutate: (entry, request, signal, turns) => {
      if (entry === PAUSE_ENTRY) return ownKinds?.pause?.(request, signal) ?? ALLOWED;
      return route('mutate', entry, request, signal, (policies) =>
        mutate(request, policies, { world, signal, turns }),
      );
    },
    validate: (entry, request, signal, turns) =>
      route('validate', entry, request, signal, (policies) => {
        const check = isDeletionEntry(entry) ? checkDeletion : validateWrite;
        return check(request, policies, { world, signal, now: now(), turns });
      }),
  };
}

function decideUnlessUndecidable(
  phase: HandlerPhase,
  request: AdmissionRequest,
  policies: readonly CompiledPolicy[],
  decide: Decide,
): Decision | Promise<Decision> {
  if (policies.every(({ undecidable }) => undecidable === undefined)) return decide(policies);
  const refusal = refuseUndecidable(phase, request, policies);
  if (refusal !== undefined) return refusal;
  const decision = decide(policies.filter(({ undecidable }) => undecidable === undefined));
  // In the other phase, the warning would be a duplicate.
  if (phase === 'mutate') return decision;
  const warn = (one: Decision) => withUnevaluated(one, policies);
  return decision instanceof Promise ? decision.then(warn) : warn(decision);
}

const retry = (message: string): Decision => ({ kind: 'retry', message });

/** The API server knows a policy that this replica has not read yet. Allowing the request would bypass the policy. */
const unknownEntry = (entry: string): Decision =>
  retry(`this replica does not know a policy of entry ${entry} for this request yet`);

/** The image contains the handlers: a replica with another image has written the webhook configuration. */
const unknownHandler = (handler: string): Decision =>
  retry(`handler ${handler} not found in this replica for this request`);
