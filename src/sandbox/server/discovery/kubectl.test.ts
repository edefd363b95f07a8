/** How a real kubectl reads the documents. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

import { HAS_KUBECTL } from '../../../../test/support/kubectl.ts';
import { parseJson, type JsonObject, type JsonValue } from '../../../json/json.ts';
import { ofJson } from '../../machinery/api-object.ts';
import { negotiate } from '../http/content-type.ts';
import { toTable } from '../table/table.ts';
import { discoveryAnswer } from './discovery.ts';
import { openApiAnswer } from './openapi.ts';
import { sampleRegistry } from '../../../../test/support/sandbox/sample-types.ts';

const kubectlTest = test.skipIf(!HAS_KUBECTL);

const APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

/** An object after `kubectl apply`. */
function applied(apiVersion: string, kind: string, name: string, spec: JsonObject) {
  const wanted = { apiVersion, kind, metadata: { annotations: {}, name, namespace: 'default' }, spec };
  const annotations = { [APPLIED]: JSON.stringify(wanted) };
  return { ...wanted, metadata: { ...wanted.metadata, annotations, resourceVersion: '1' } };
}

const container = (image: string) => ({ template: { spec: { containers: [{ name: 'main', image }] } } });

const SERVICE = applied('v1', 'Service', 'db', { ports: [{ port: 80 }] });
const DEPLOYMENT = applied('apps/v1', 'Deployment', 'web', container('one'));

interface Seen {
  readonly method: string;
  readonly url: URL;
  readonly contentType: string | undefined;
  readonly body: string;
}

const folder = mkdtempSync(join(tmpdir(), 'discovery-'));
const seen: Seen[] = [];
const server = createServer((request, response) => void answer(request, response));
let url = '';

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = '', headers } = request;
  const asked = new URL(request.url ?? '/', url);
  const body = await text(request);
  seen.push({ method, url: asked, contentType: headers['content-type'], body });
  const document =
    discoveryAnswer(asked.pathname, headers.accept, sampleRegistry) ??
    openApiAnswer(asked.pathname, headers.accept, sampleRegistry);
  const reply = (code: number, contentType: string, value: JsonValue) =>
    response.writeHead(code, { 'content-type': contentType }).end(JSON.stringify(value));
  if (document !== undefined) reply(200, document.contentType, document.body);
  else if (method === 'POST') reply(201, 'application/json', parseJson(body));
  else if (asked.pathname.endsWith('/deployments/web')) reply(200, 'application/json', DEPLOYMENT);
  else if (asked.pathname.endsWith('/services/db')) reply(200, 'application/json', service(headers.accept));
  else
    reply(404, 'application/json', {
      kind: 'Status',
      apiVersion: 'v1',
      status: 'Failure',
      reason: 'NotFound',
      code: 404,
    });
}

function service(accept: string | undefined): JsonValue {
  const form = negotiate(accept);
  if (form.kind !== 'table') return SERVICE;
  return toTable({
    type: { custom: false, columns: [{ name: 'Port', type: 'string', value: '.spec.ports[*].port' }] },
    objects: [ofJson(SERVICE)],
    listMeta: undefined,
    includeObject: 'Metadata',
    withColumns: true,
    version: form.version,
    now: new Date('2026-01-01T00:00:00Z'),
  });
}

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`; // it listens on a port
});

afterEach(() => {
  seen.length = 0;
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The output of kubectl, including warnings and errors. */
function kubectl(...args: readonly string[]): Promise<string> {
  const env = { PATH: process.env.PATH, HOME: folder, KUBECONFIG: '/dev/null' };
  return new Promise((resolve) => {
    execFile('kubectl', [`--server=${url}`, ...args], { env, timeout: 20_000 }, (_error, stdout, stderr) => {
      resolve(stdout + stderr);
    });
  });
}

function manifest(value: object): string {
  const path = join(folder, 'manifest.json');
  writeFileSync(path, JSON.stringify(value));
  return path;
}

const TIMEOUT_MS = 30_000;

kubectlTest(
  'kubectl lists the resources of all groups',
  async () => {
    const lines = (await kubectl('api-resources', '--no-headers'))
      .split('\n')
      .map((line) => line.split(/\s+/));
    expect(lines).toContainEqual(['services', 'svc', 'v1', 'true', 'Service']);
    expect(lines).toContainEqual(['servers', 'srv', 'infra.example.com/v1', 'true', 'Server']);
    expect(lines).toContainEqual(['namespaces', 'v1', 'false', 'Namespace']);
    expect(seen.map(({ url: { pathname } }) => pathname)).not.toContain('/apis/apps/v1');
  },
  TIMEOUT_MS,
);

kubectlTest(
  'kubectl shows the server version',
  async () => {
    expect(await kubectl('version')).toContain('Server Version: v1.37.0+sandbox');
  },
  TIMEOUT_MS,
);

kubectlTest(
  'kubectl explains a custom resource',
  async () => {
    const explained = await kubectl('explain', 'srv');
    expect(explained).toMatch(/GROUP: +infra\.example\.com\nKIND: +Server\nVERSION: +v1/);
    expect(explained).toContain('A machine.');
    expect(explained).toMatch(/metadata\t<ObjectMeta>/);
    expect(explained).toMatch(/spec\t<Object> -required-/);
  },
  TIMEOUT_MS,
);

kubectlTest(
  'kubectl explains nested fields',
  async () => {
    expect(await kubectl('explain', 'servers.spec')).toMatch(
      /size\t<string> -required-\n\s+enum: small, large/,
    );
    expect(await kubectl('explain', 'servers.spec.disks.name')).toContain('What it is called.');
    expect(await kubectl('explain', 'servers.metadata.ownerReferences')).toMatch(/uid\t<string> -required-/);
    expect(await kubectl('explain', 'services.spec.ports')).toMatch(/targetPort\t<IntOrString>/);
    expect(await kubectl('explain', 'servers.spec.nope')).toContain('field "nope" does not exist');
  },
  TIMEOUT_MS,
);

kubectlTest(
  'kubectl explains all levels at once',
  async () => {
    const explained = await kubectl('explain', 'servers', '--recursive');
    expect(explained).toMatch(
      /\n {2}spec\t<Object> -required-\n(?: {4}.*\n)*? {4}disks\t<\[\]Object>\n {6}name\t<string>/,
    );
    expect(explained).toMatch(/\n {4}ownerReferences\t<\[\]Object>\n/);
  },
  TIMEOUT_MS,
);

kubectlTest(
  'kubectl leaves the validation of custom resources to the server',
  async () => {
    const file = manifest({ apiVersion: 'infra.example.com/v1', kind: 'Server', metadata: { name: 'db' } });
    expect(await kubectl('create', '--validate=strict', '-f', file)).toBe(
      'server.infra.example.com/db created\n',
    );
    const post = seen.find(({ method }) => method === 'POST');
    expect(post?.url.searchParams.get('fieldValidation')).toBe('Strict');
  },
  TIMEOUT_MS,
);

kubectlTest.each([
  ['a complete schema', SERVICE, { ports: [{ port: 80, targetPort: 8080 }] }],
  ['an incomplete schema', DEPLOYMENT, container('two')],
])(
  'with %s, kubectl computes a strategic merge patch without a warning',
  async (_which, { apiVersion, kind, metadata: { name } }, spec) => {
    const file = manifest({ apiVersion, kind, metadata: { name }, spec });
    expect(await kubectl('apply', '-f', file)).toMatch(/^[a-z./]+ configured\n$/);
    const patch = seen.find(({ method }) => method === 'PATCH');
    expect(patch?.contentType).toBe('application/strategic-merge-patch+json');
    expect(parseJson(patch?.body ?? '')).toMatchObject({ spec });
  },
  TIMEOUT_MS,
);

kubectlTest(
  'kubectl prints a table unchanged',
  async () => {
    const lines = (await kubectl('get', 'services', 'db')).trim().split('\n');
    expect(lines.map((line) => line.split(/\s+/))).toEqual([
      ['NAME', 'PORT'],
      ['db', '80'],
    ]);
  },
  TIMEOUT_MS,
);
