/**
 * One HTTPS server for the webhooks of all cases: each case defines the answers for its own paths and reads their
 * requests.
 */
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

import { caBundle } from '../../src/pki/authority/authority.ts';
import { firstAuthority } from '../support/pki/fixtures.ts';
import { generateKeyPair, randomSerial } from '../../src/pki/x509/keys.ts';
import { issueServingCert } from '../../src/pki/serving-certs/issue.ts';
import { eventually } from '../support/processes.ts';
import type { Api, Loose } from './api.ts';

export const HOOKS_NAMESPACE = 'conformance-hooks';
export const HOOKS_SERVICE = 'hooks';

/** An AdmissionReview or ConversionReview as received. */
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

export interface CaseHooks {
  /** Sets the answer for `path`. */
  readonly serve: (path: string, handler: Handler) => void;
  /** The reviews that `path` received, oldest first. */
  readonly reviewsAt: (path: string) => readonly Review[];
  /** A `clientConfig` for `path` through the Service. */
  readonly service: (path: string) => object;
  /** An entry for creations of ConfigMaps in the case's namespace, with changes. */
  readonly entry: (
    path: string,
    changes?: Readonly<Record<string, unknown>>,
  ) => Readonly<Record<string, unknown>>;
  readonly install: (api: Api, configuration: Configuration) => Promise<void>;
  /** Removes the installed configurations. */
  readonly clear: (api: Api) => Promise<void>;
}

export interface HooksServer {
  readonly port: number;
  readonly forCase: (id: string) => CaseHooks;
  readonly stop: () => Promise<void>;
}

export async function startHooks(): Promise<HooksServer> {
  const now = new Date();
  const authority = await firstAuthority(now);
  const keyPair = await generateKeyPair('ECDSA-P256');
  const dnsNames = [`${HOOKS_SERVICE}.${HOOKS_NAMESPACE}.svc`, 'localhost'];
  const order = { authority, dnsNames, keyPair, serial: randomSerial(), now, lifetimeMs: 24 * 3600 * 1000 };
  const { chain } = await issueServingCert(order);
  const ca = Buffer.from(caBundle(authority, now)).toString('base64');

  const handlers = new Map<string, Handler>();
  const reviews = new Map<string, Review[]>();
  const server = createServer({ cert: chain, key: keyPair.privateKey }, (request, response) => {
    void text(request).then((body) => {
      const path = new URL(request.url ?? '/', 'https://localhost').pathname;
      const review = JSON.parse(body) as Review; // the API server sends only reviews here
      const seen = reviews.get(path) ?? [];
      reviews.set(path, [...seen, review]);
      const answer = { uid: review.request.uid, ...handlers.get(path)?.(review) };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ ...review, request: undefined, response: answer }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
  const { port } = server.address() as AddressInfo; // it listens on a TCP port
  return {
    port,
    forCase: (id) => hooksOfCase({ id, port, ca, handlers, reviews }),
    stop: () => close(server),
  };
}

interface CaseContext {
  readonly id: string;
  readonly port: number;
  readonly ca: string;
  readonly handlers: Map<string, Handler>;
  readonly reviews: Map<string, Review[]>;
}

function hooksOfCase({ id, port, ca, handlers, reviews }: CaseContext): CaseHooks {
  const pathOf = (path: string) => `/${id}/${path}`;
  const installed: string[] = [];
  const serve: CaseHooks['serve'] = (path, handler) => void handlers.set(pathOf(path), handler);
  const service: CaseHooks['service'] = (path) => ({
    service: { namespace: HOOKS_NAMESPACE, name: HOOKS_SERVICE, port, path: pathOf(path) },
    caBundle: ca,
  });
  const entry: CaseHooks['entry'] = (path, changes = {}) => ({
    name: `${path}.example.com`,
    clientConfig: service(path),
    rules: [
      { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['configmaps'], scope: '*' },
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
    service,
    entry,
    reviewsAt: (path) => reviews.get(pathOf(path)) ?? [],
    install: async (api, { kind, name = 'hooks', webhooks }) => {
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
    clear: async (api) => {
      for (const path of installed.splice(0)) await api.delete(path);
    },
  };
}

/**
 * The last entry of each configuration denies a probe object that no other entry matches: a denied probe shows that
 * the API server uses the configurations.
 */
async function inForce(api: Api, probe: string): Promise<void> {
  await eventually(`${probe} is in force`, async () => {
    try {
      await api.create('configmaps?dryRun=All', { metadata: { name: 'probe', labels: { probe } } });
      return false;
    } catch (error) {
      return String(error).includes(`${probe} is in force`);
    }
  });
}

async function close(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}
