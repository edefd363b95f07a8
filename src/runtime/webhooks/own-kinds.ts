/**
 * Decides requests for Gatehouse's own kinds: restorers write none of them, only permitted users open windows, and
 * policies read only what their authors may read.
 */
import { ALLOWED, type Decision } from '../../admission/review/decision.ts';
import { isJsonObject } from '../../json/json.ts';
import { verifiedDiff } from '../../json/json-diff.ts';
import { writes, type AdmissionRequest, type UserInfo } from '../../admission/review/request.ts';
import type { Owners } from '../../admission/policy/world.ts';
import { GROUP } from '../../api/group.ts';
import { restoreDetectorSchema, type RestoreDetector } from '../../api/restore-detector.ts';
import { restoreWindowSchema, type RestoreWindow } from '../../api/restore-window.ts';
import { completeWindow } from '../../restore/complete-window.ts';
import { objectionsTo, type OwnKindRequest } from '../../restore/window-admission.ts';
import { isClusterWide } from '../../restore/opener.ts';
import { windowState } from '../../restore/window.ts';
import type { AccessReviews } from '../access-reviews.ts';
import { createAuthorReview, refusal } from '../policies/author-review.ts';
import type { createExceptionWarnings } from '../policies/exception-warnings.ts';
import type { createPolicyWarnings } from '../policies/policy-warnings.ts';
import type { ReadRecords } from '../policies/read-records.ts';
import type { Watched } from '../watch.ts';
import { compileJsonSchema } from '../../admission/policy/schema/json-schema.ts';
import type { SchemaCheck } from '../../admission/policy/compiled-policy.ts';
import { admissionPolicySchema } from '../../api/admission-policy.ts';
import { policyExceptionSchema } from '../../api/policy-exception.ts';

export type OwnKinds = ReturnType<typeof createOwnKinds>;

interface Sources {
  readonly mayUser: AccessReviews;
  readonly windows: Pick<Watched<RestoreWindow>, 'store'>;
  readonly detectors: Pick<Watched<RestoreDetector>, 'store'>;
  readonly owners: Pick<Owners, 'isOurs'>;
  readonly records: Pick<ReadRecords, 'recordOf' | 'verdict'>;
  readonly ownNamespace: string;
}

export function createOwnKinds(
  { mayUser, windows, detectors, owners, records, ownNamespace }: Sources,
  warn: {
    readonly ofPolicy: ReturnType<typeof createPolicyWarnings>;
    readonly ofException: ReturnType<typeof createExceptionWarnings>;
  },
  now: () => Date,
) {
  const reviewAuthor = createAuthorReview(mayUser, records, ownNamespace);
  const restorers = () => {
    const open = windows.store
      .list()
      .filter((window) => isClusterWide(window) && windowState(window, now()).kind === 'open');
    return [...detectors.store.list(), ...open].flatMap(({ spec }) => spec.principals);
  };
  const mayOpen = async (
    user: UserInfo,
    name: string | undefined,
    namespaces: readonly string[],
    signal: AbortSignal,
  ): Promise<boolean> => {
    const question = { verb: 'open', group: GROUP, resource: 'restorewindows', name };
    const ask = (namespace?: string) => mayUser(user, { ...question, namespace }, signal);
    if (namespaces.length === 0) return await ask();
    return (await Promise.all(namespaces.map((namespace) => ask(namespace)))).every(Boolean);
  };
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
          (await mayOpen(userInfo, name, [], signal));
        const completed = completeWindow(toOwnRequest(request), now(), mayOpenAll);
        if (object === undefined || !isJsonObject(completed) || completed === object) return ALLOWED;
        return { ...ALLOWED, patch: verifiedDiff(object, completed) };
      } catch (cause) {
        return undecided('who may open RestoreWindows')(cause);
      }
    },
    validate: async (request: AdmissionRequest, signal: AbortSignal): Promise<Decision> => {
      try {
        // The API server validates before it asks. A client that imitates it does not.
        const flaws = owners.isOurs(request.userInfo.username) ? [] : schemaFlaws(request);
        if (flaws.length > 0) return refusal(flaws);
        // Restorers may write them: they belong to the tenants.
        if (request.resource.resource === 'policyexceptions') return warn.ofException(request);
        const objections = await objectionsTo(toOwnRequest(request), {
          restorers: restorers(),
          isOurs: ({ username }) => owners.isOurs(username),
          mayOpen: (name, namespaces) => mayOpen(request.userInfo, name, namespaces, signal),
          mayPatch: async ({ group, resource }, namespaces) => {
            const ask = (namespace?: string) =>
              mayUser(request.userInfo, { verb: 'patch', group, resource, namespace }, signal);
            if (namespaces.length === 0) return await ask();
            return (await Promise.all(namespaces.map((one) => ask(one)))).every(Boolean);
          },
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
const checks = new Map<string, SchemaCheck>();

/** The flaws of the object that the request would store; empty if it is valid, or of another kind. */
function schemaFlaws({
  operation,
  resource: { resource },
  object,
}: AdmissionRequest): ReturnType<SchemaCheck> {
  const schema = SCHEMAS.get(resource);
  if (schema === undefined || object === undefined || !writes(operation)) return [];
  const check = checks.get(resource) ?? compileJsonSchema(withoutExtensions(schema));
  checks.set(resource, check);
  return check(object);
}

/** JSON Schema does not have the keywords of Kubernetes. */
const withoutExtensions = (schema: object): object =>
  JSON.parse(
    JSON.stringify(schema, (key, value: unknown) => (key.startsWith('x-kubernetes-') ? undefined : value)),
  ) as object;
