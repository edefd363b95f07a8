/** Decides requests for Gatehouse's own kinds: who writes them, opens windows, and lets policies read. */
import { isDeepStrictEqual } from 'node:util';

import { ALLOWED, type Decision } from '../../admission/review/decision.ts';
import { isJsonObject, memoizeWeak } from '../../json/json.ts';
import { verifiedDiff } from '../../json/json-diff.ts';
import { type AdmissionRequest, type UserInfo, writes } from '../../admission/review/request.ts';
import type { Owners } from '../../admission/policy/world.ts';
import { GROUP } from '../../api/group.ts';
import { RBAC_GROUP } from '../../api/restore-guard.ts';
import { type RestoreDetector, restoreDetectorSchema } from '../../api/restore-detector.ts';
import { type RestoreWindow, restoreWindowSchema } from '../../api/restore-window.ts';
import { completeWindow, objectionsTo, type OwnKindRequest } from '../../restore/window-admission.ts';
import { isClusterWide, windowState } from '../../restore/window.ts';
import type { AccessReviews } from '../access-reviews.ts';
import { createAuthorReview, type createPolicyWarnings, refusal } from '../policies/author-review.ts';
import type { createExceptionWarnings } from '../policies/policy-exceptions.ts';
import type { ReadRecords } from '../policies/read-records.ts';
import type { Watched } from '../watch.ts';
import { compileJsonSchema } from '../../admission/policy/schema/json-schema.ts';
import type { SchemaCheck } from '../../admission/policy/compiled-policy.ts';
import { admissionPolicySchema } from '../../api/admission-policy.ts';
import { policyExceptionSchema } from '../../api/policy-exception.ts';
import {
  OWN_KINDS_POLICY_NAME,
  ownKindsPolicy,
  type OwnKindsPolicy,
} from '../../admission/webhooks/protect-own-kinds.ts';
import { ownedBy } from '../../admission/webhooks/installation-owner.ts';
import { guardRules } from '../../admission/webhooks/restore-guard.ts';
import type { OwnerReference } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Log } from '../../log.ts';
import type { Store } from '../../kube/store.ts';
import { validatingAdmissionPolicies, validatingAdmissionPolicyBindings } from '../../kube/well-known.ts';
import type { Context } from '../context.ts';
import { type Reconcile, requeueIn, startController } from '../controller.ts';
import type { Installation } from './installation.ts';
import { guardedPrincipals, type RestoreKinds, restorersOf } from '../restores/restore-kinds.ts';
import type { AccessQuestion } from '../../kube/access.ts';
import type { RestoreGuards } from './restore-guard.ts';

export type OwnKinds = ReturnType<typeof createOwnKinds>;

interface Sources {
  readonly mayUser: AccessReviews;
  readonly windows: Pick<Watched<RestoreWindow>, 'store'>;
  readonly detectors: Pick<Watched<RestoreDetector>, 'store'>;
  readonly owners: Pick<Owners, 'isOurs'>;
  readonly guards: RestoreGuards;
  readonly records: Pick<ReadRecords, 'recordOf' | 'verdict'>;
  readonly ownNamespace: string;
}

export function createOwnKinds(
  { mayUser, windows, detectors, owners, guards, records, ownNamespace }: Sources,
  warn: {
    readonly ofPolicy: ReturnType<typeof createPolicyWarnings>;
    readonly ofException: ReturnType<typeof createExceptionWarnings>;
  },
  now: () => Date,
) {
  const reviewAuthor = createAuthorReview(mayUser, records, ownNamespace);
  const restorers = () => {
    const isOpen = (window: RestoreWindow) => windowState(window, now()).kind === 'open';
    const open = windows.store.list().filter((window) => isClusterWide(window) && isOpen(window));
    return [...detectors.store.list(), ...open].flatMap(({ spec }) => spec.principals);
  };
  const mayEverywhere = async (
    user: UserInfo,
    question: AccessQuestion,
    namespaces: readonly string[],
    signal: AbortSignal,
  ): Promise<boolean> => {
    const ask = (namespace?: string) => mayUser(user, { ...question, namespace }, signal);
    if (namespaces.length === 0) return await ask();
    return (await Promise.all(namespaces.map((namespace) => ask(namespace)))).every(Boolean);
  };
  const opening = (name: string | undefined) => ({ ...OPENING, name });
  return {
    mutate: async (request: AdmissionRequest, signal: AbortSignal): Promise<Decision> => {
      const { object, operation, userInfo, name } = request;
      if (request.resource.resource === 'admissionpolicies')
        // The API server refuses an object with flaws after the mutating webhooks.
        return schemaFlaws(request).length > 0
          ? ALLOWED
          : await reviewAuthor(request, signal).catch(undecided('what the author of a policy may read'));
      try {
        const mayOpenAll =
          operation === 'CREATE' &&
          !owners.isOurs(userInfo.username) &&
          (await mayEverywhere(userInfo, opening(name), [], signal));
        const completed = completeWindow(toOwnRequest(request), now(), mayOpenAll);
        if (object === undefined || !isJsonObject(completed) || completed === object) return ALLOWED;
        return { ...ALLOWED, patch: verifiedDiff(object, completed) };
      } catch (cause) {
        return undecided('who may open RestoreWindows')(cause);
      }
    },
    validate: async (request: AdmissionRequest, signal: AbortSignal): Promise<Decision> => {
      const { userInfo } = request;
      if (request.resource.group === RBAC_GROUP) return await guards(request, signal);
      try {
        // The API server validates before it asks. A client that imitates it does not.
        const flaws = owners.isOurs(userInfo.username) ? [] : schemaFlaws(request);
        if (flaws.length > 0) return refusal(flaws);
        // Restorers may write them: they belong to the tenants.
        if (request.resource.resource === 'policyexceptions') return warn.ofException(request);
        const objections = await objectionsTo(toOwnRequest(request), {
          restorers: restorers(),
          isOurs: ({ username }) => owners.isOurs(username),
          mayOpen: (name, namespaces) => mayEverywhere(userInfo, opening(name), namespaces, signal),
          mayPatch: ({ group, resource }, namespaces) =>
            mayEverywhere(userInfo, { verb: 'patch', group, resource }, namespaces, signal),
          now: now(),
        });
        if (objections.length > 0) return refusal(objections);
        return request.resource.resource === 'admissionpolicies'
          ? await warn.ofPolicy(request, signal)
          : ALLOWED;
      } catch (cause) {
        return undecided('who may open RestoreWindows')(cause);
      }
    },
  };
}

const OPENING = { verb: 'open', group: GROUP, resource: 'restorewindows' } as const;

const undecided =
  (what: string) =>
  (cause: unknown): Decision => ({
    kind: 'retry',
    message: `could not check ${what}: try again`,
    cause,
  });

const toOwnRequest = (request: AdmissionRequest): OwnKindRequest => ({
  ...request,
  resource: request.resource.resource,
  user: request.userInfo,
});

/** The kinds whose reviews cause SubjectAccessReviews, or read more than their metadata. */
const SCHEMAS = new Map<string, object>([
  ['admissionpolicies', admissionPolicySchema],
  ['policyexceptions', policyExceptionSchema],
  ['restoredetectors', restoreDetectorSchema],
  ['restorewindows', restoreWindowSchema],
]);

/** Compiled on first use: compilation takes tens of milliseconds. */
const checkOf = memoizeWeak((schema: object) => compileJsonSchema(withoutExtensions(schema)));

function schemaFlaws({
  operation,
  resource: { resource },
  object,
}: AdmissionRequest): ReturnType<SchemaCheck> {
  const schema = SCHEMAS.get(resource);
  if (schema === undefined || object === undefined || !writes(operation)) return [];
  return checkOf(schema)(object);
}

/** JSON Schema does not have the keywords of Kubernetes. */
const withoutExtensions = (schema: object): object =>
  JSON.parse(
    JSON.stringify(schema, (key, value: unknown) => (key.startsWith('x-kubernetes-') ? undefined : value)),
  ) as object;

type Part = keyof OwnKindsPolicy;
type PartObject = OwnKindsPolicy[Part];

const RESOURCES = { policy: validatingAdmissionPolicies, binding: validatingAdmissionPolicyBindings };

/** No watch reports changes by other clients: the leader reverts them within this time, in milliseconds. */
const RECHECK_MS = 60_000;
const CHANGING_MS = 1_000;

interface ProtectOwnKindsOptions {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'>;
  readonly detectors: Pick<Store<RestoreDetector>, 'list'>;
  readonly windows: Pick<Store<RestoreWindow>, 'list'>;
  readonly installation: Pick<Installation, 'owner' | 'obstacle' | 'withOwner' | 'isChanging'>;
  readonly now: () => Date;
  readonly log: Log;
}

/** On the leader: keeps restorers from writing Gatehouse's own kinds, even while no replica runs. */
export function createProtectOwnKindsReconciler(options: ProtectOwnKindsOptions): Reconcile {
  const { client, windows, detectors, installation, now, log } = options;
  const ensure = async (
    part: Part,
    desired: PartObject,
    owner: OwnerReference | undefined,
    signal: AbortSignal,
  ) => {
    const kind = RESOURCES[part];
    const name = OWN_KINDS_POLICY_NAME;
    const live = await client.get<PartObject>(kind, { name }, { signal });
    if (live === undefined) {
      const reason = await installation.obstacle(signal);
      if (reason !== undefined) {
        log.debug({ part, name, reason }, 'the policy that protects our own kinds is not created');
        return;
      }
      await client.create(kind, ownedBy(desired, owner), { signal });
      log.info({ part, name }, 'created the policy that protects our own kinds from restorers');
      return;
    }
    await installation.withOwner(owner, async (by) => {
      const next = ownedBy({ ...live, spec: desired.spec }, by);
      if (isDeepStrictEqual(live, next)) return;
      await client.replace(kind, next, { signal });
      log.info({ part, name }, 'replaced the policy that protects our own kinds from restorers');
    });
  };
  const remove = async (part: Part, signal: AbortSignal): Promise<void> => {
    const ref = { name: OWN_KINDS_POLICY_NAME };
    const live = await client.get<PartObject>(RESOURCES[part], ref, { signal });
    if (live === undefined) return;
    const { uid, resourceVersion } = live.metadata ?? {};
    await client.delete(RESOURCES[part], ref, { preconditions: { uid, resourceVersion }, signal });
  };
  return async (_key, signal) => {
    const restorers = restorersOf(detectors);
    const owner = await installation.owner(signal);
    const guarded = guardedPrincipals(windows, detectors, now());
    const isNeeded = restorers.length > 0 || guardRules(guarded).length > 0;
    const desired = isNeeded ? ownKindsPolicy(restorers, guarded) : undefined;
    for (const part of ['policy', 'binding'] as const) {
      if (desired === undefined) await remove(part, signal);
      else await ensure(part, desired[part], owner, signal);
    }
    return requeueIn(installation.isChanging() ? CHANGING_MS : RECHECK_MS, now());
  };
}

export function startProtectOwnKinds(
  context: Context,
  { windows, detectors }: RestoreKinds,
  installation: Installation,
  signal: AbortSignal,
): { readonly stopped: Promise<void> } {
  const { client, config, serverClock, log } = context;
  if (config.without.includes('restores')) return { stopped: Promise.resolve() };
  const stores = { windows: windows.store, detectors: detectors.store };
  const options = { client, ...stores, installation, now: serverClock.now, log };
  const reconcile = createProtectOwnKindsReconciler(options);
  const on = [detectors.onChange, windows.onChange, installation.onChange];
  const running = { name: 'guard-policy', key: OWN_KINDS_POLICY_NAME, on, reconcile };
  return startController(context, running, signal);
}
