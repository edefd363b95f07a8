/**
 * One HTTPS server for the webhooks of all cases: each case defines the answers for its own paths and reads their
 * requests.
 */
import { eventually } from '../support/processes.ts';
import { startJsonServer } from '../support/json-server.ts';
import type { Loose, Verbs } from './api.ts';

export const HOOKS_NAMESPACE = 'conformance-hooks';
export const HOOKS_SERVICE = 'hooks';

export interface Review {
  readonly apiVersion: string;
  readonly kind: string;
  readonly request: Readonly<Record<string, unknown>> & {
    readonly uid: string;
    readonly object?: Loose | null;
    readonly oldObject?: Loose | null;
  };
}

/** The fields of `response`; the server fills in the rest of the review, including the uid. */
export type Reply = Readonly<Record<string, unknown>>;

export type Handler = (review: Review) => Reply;

export const allow = (more: Reply = {}): Reply => ({ allowed: true, ...more });

export const deny = (status: Readonly<Record<string, unknown>>): Reply => ({ allowed: false, status });

export const patched = (...operations: readonly object[]): Reply =>
  allow({ patchType: 'JSONPatch', patch: Buffer.from(JSON.stringify(operations)).toString('base64') });

export interface Configuration {
  readonly kind: 'Validating' | 'Mutating';
  /** Distinguishes the configurations of a case, and determines the order of calls. */
  readonly name?: string;
  readonly webhooks: readonly Readonly<Record<string, unknown>>[];
}

export type CaseHooks = ReturnType<Awaited<ReturnType<typeof startHooks>>['forCase']>;

export async function startHooks() {
  const handlers = new Map<string, Handler>();
  const reviews = new Map<string, Review[]>();
  const name = `${HOOKS_SERVICE}.${HOOKS_NAMESPACE}.svc`;
  const { port, caBundle, stop } = await startJsonServer(name, (body, { url = '/' }) => {
    const path = new URL(url, 'https://localhost').pathname;
    const review = JSON.parse(body) as Review; // the API server sends only reviews here
    reviews.set(path, [...(reviews.get(path) ?? []), review]);
    const answer = { uid: review.request.uid, ...handlers.get(path)?.(review) };
    return { apiVersion: review.apiVersion, kind: review.kind, response: answer };
  });
  const forCase = (id: string) => {
    const pathOf = (path: string) => `/${id}/${path}`;
    const installed: string[] = [];
    const serve = (path: string, handler: Handler) => void handlers.set(pathOf(path), handler);
    /** An entry for creations of ConfigMaps in the case's namespace, with changes. */
    const entry = (path: string, changes: Readonly<Record<string, unknown>> = {}) => ({
      name: `${path}.example.com`,
      clientConfig: {
        service: { namespace: HOOKS_NAMESPACE, name: HOOKS_SERVICE, port, path: pathOf(path) },
        caBundle,
      },
      rules: [
        {
          apiGroups: [''],
          apiVersions: ['v1'],
          operations: ['CREATE'],
          resources: ['configmaps'],
          scope: '*',
        },
      ],
      namespaceSelector: { matchLabels: { case: id } },
      objectSelector: { matchExpressions: [{ key: 'probe', operator: 'DoesNotExist' }] },
      failurePolicy: 'Fail',
      sideEffects: 'None',
      admissionReviewVersions: ['v1'],
      ...changes,
    });
    return {
      serve,
      entry,
      /** The reviews that `path` received, oldest first. */
      reviewsAt: (path: string) => reviews.get(pathOf(path)) ?? [],
      install: async (api: Pick<Verbs, 'create'>, { kind, name = 'hooks', webhooks }: Configuration) => {
        const fullName = `${id}-${name}`;
        const collection = `/apis/admissionregistration.k8s.io/v1/${kind.toLowerCase()}webhookconfigurations`;
        const probe = `probe-${name}`;
        serve(probe, () => deny({ message: `${probe} is in force` }));
        await api.create(collection, {
          metadata: { name: fullName },
          webhooks: [
            ...webhooks,
            entry(probe, { name: `${probe}.example.com`, objectSelector: { matchLabels: { probe } } }),
          ],
        });
        installed.push(`${collection}/${fullName}`);
        await inForce(api, probe);
      },
      /** Removes the installed configurations. */
      clear: async (api: Pick<Verbs, 'delete'>) => {
        for (const path of installed.splice(0)) await api.delete(path);
      },
    };
  };
  return { port, forCase, stop };
}

/**
 * The last entry of each configuration denies a probe object that no other entry matches: a denied probe shows that
 * the API server uses the configurations.
 */
async function inForce(api: Pick<Verbs, 'create'>, probe: string): Promise<void> {
  await eventually(`${probe} is in force`, async () => {
    try {
      await api.create('configmaps?dryRun=All', { metadata: { name: 'probe', labels: { probe } } });
      return false;
    } catch (error) {
      return String(error).includes(`${probe} is in force`);
    }
  });
}
