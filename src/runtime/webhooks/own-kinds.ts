/**
 * Decides requests for Gatehouse's own kinds: restorers write none of them, only permitted users open windows, and
 * policies read only what their authors may read.
 */
import { ALLOWED, type Decision } from '../../admission/review/decision.ts';
import { isJsonObject } from '../../json/json.ts';
import { verifiedDiff } from '../../json/json-diff.ts';
import type { AdmissionRequest, UserInfo } from '../../admission/review/request.ts';
import type { Owners } from '../../admission/policy/world.ts';
import { GROUP } from '../../api/group.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
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
import { schemaFlaws } from './own-kind-schemas.ts';

export type OwnKinds = ReturnType<typeof createOwnKinds>;

export function createOwnKinds(
  mayUser: AccessReviews,
  windows: Pick<Watched<RestoreWindow>, 'store'>,
  detectors: Pick<Watched<RestoreDetector>, 'store'>,
  owners: Pick<Owners, 'isOurs'>,
  records: Pick<ReadRecords, 'recordOf' | 'verdict'>,
  ownNamespace: string,
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
