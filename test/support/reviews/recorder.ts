/** A webhook server that allows and converts everything, and records what the API server sends. */
import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:https';
import { text } from 'node:stream/consumers';

import {
  isJsonObject,
  listIn,
  parseJson,
  stringifyJson,
  textIn,
  type JsonValue,
} from '../../../src/json/json.ts';
import { caBundle } from '../../../src/pki/authority/authority.ts';
import { issueServingCert } from '../../../src/pki/serving-certs/issue.ts';
import { generateKeyPair, randomSerial } from '../../../src/pki/x509/keys.ts';
import { base64, firstAuthority } from '../pki/fixtures.ts';
import { listen } from '../tls.ts';
import { HOOK_SERVICE } from './cluster-objects.ts';

/** A line of test/data/admission-reviews-*.jsonl. */
export interface RecordedReview {
  readonly step: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The text as received: it has integers beyond 2^53. */
  readonly body: string;
}

export type Recorder = Awaited<ReturnType<typeof startRecorder>>;

const DAY_MS = 24 * 3600 * 1000;

export async function startRecorder() {
  const now = new Date();
  const authority = await firstAuthority(now);
  const keyPair = await generateKeyPair('ECDSA-P256');
  const dnsNames = [`${HOOK_SERVICE.name}.${HOOK_SERVICE.namespace}.svc`];
  const order = { authority, dnsNames, keyPair, serial: randomSerial(), now, lifetimeMs: DAY_MS };
  const { chain } = await issueServingCert(order);

  const recorded: RecordedReview[] = [];
  const probed = new Set<string>();
  let step: string | undefined;
  const server = createServer({ cert: chain, key: keyPair.privateKey }, (request, response) => {
    const during = step;
    void text(request).then((body) => {
      const path = request.url ?? '/';
      if (during === undefined) probed.add(path.replace(/\?.*/, ''));
      else recorded.push({ step: during, path, headers: headersOf(request), body });
      response.setHeader('content-type', 'application/json');
      response.end(stringifyJson(answerTo(parseJson(body))));
    });
  });
  return {
    port: await listen(server),
    ca: base64(caBundle(authority, now)),
    /** Records from now on, as part of this step. */
    begin: (name: string) => void (step = name),
    recorded: recorded as readonly RecordedReview[],
    probed: probed as ReadonlySet<string>,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Without the host: its port differs between two recordings. */
const headersOf = ({ headers }: IncomingMessage): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) => (name === 'host' ? [] : [[name, String(value)]])),
  );

/** Allows the request, or converts the objects: all versions have the same fields. */
function answerTo(review: JsonValue): unknown {
  const uid = textIn(review, 'request', 'uid');
  const [apiVersion, kind] = [textIn(review, 'apiVersion'), textIn(review, 'kind')];
  if (kind !== 'ConversionReview') return { apiVersion, kind, response: { uid, allowed: true } };
  const desired = textIn(review, 'request', 'desiredAPIVersion');
  const convertedObjects = listIn(review, 'request', 'objects').map((object) =>
    isJsonObject(object) ? { ...object, apiVersion: desired } : object,
  );
  return { apiVersion, kind, response: { uid, result: { status: 'Success' }, convertedObjects } };
}
