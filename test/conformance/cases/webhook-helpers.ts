/** Helpers for cases about webhooks. */
import type { Api, Loose } from '../api.ts';
import { patched, type Handler, type Reply, type Review } from '../hook-server.ts';

/** Installs a validating webhook with this answer; `changes` apply to its entry. */
export async function validate(
  api: Api,
  handler: Handler,
  changes: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  api.hooks.serve('hook', handler);
  await api.install({ kind: 'Validating', webhooks: [api.hooks.entry('hook', changes)] });
}

export async function mutate(
  api: Api,
  handler: Handler,
  changes: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  api.hooks.serve('hook', handler);
  await api.install({ kind: 'Mutating', webhooks: [api.hooks.entry('hook', changes)] });
}

/** A rule for widgets and gadgets. */
export const rule = (operations: readonly string[], resources: readonly string[], more: object = {}) => ({
  rules: [
    {
      apiGroups: ['conformance.example.com'],
      apiVersions: ['*'],
      operations,
      resources,
      scope: '*',
      ...more,
    },
  ],
});

/** The request of a review without irrelevant fields; only the name of the user. */
export const asked = ({ apiVersion, kind, request }: Review): unknown => {
  const { uid, userInfo, ...rest } = request as Review['request'] & {
    readonly userInfo: { readonly username: string };
  };
  return { apiVersion, kind, hasUid: uid !== '', ...rest, userInfo: { username: userInfo.username } };
};

/** Only the operation and the object. */
export const briefly = ({ request }: Review): unknown => {
  const { operation, resource, subResource, name, namespace, object, oldObject } = request;
  const { resource: plural, version } = resource as { readonly resource: string; readonly version: string };
  return {
    asked: [operation, plural, version, subResource ?? '', namespace ?? '', name ?? ''].join(' '),
    hasObject: object !== null,
    hasOldObject: oldObject !== null,
  };
};

export const labelled = (object: Loose | null | undefined, label: string): Reply =>
  patched(
    ...(object?.metadata.labels === undefined ? [{ op: 'add', path: '/metadata/labels', value: {} }] : []),
    { op: 'add', path: `/metadata/labels/${label}`, value: 'yes' },
  );

export const addLabel =
  (label: string): Handler =>
  ({ request: { object } }) =>
    labelled(object, label);
