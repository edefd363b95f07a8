// suite: processes
/** The real kubectl against the sandbox: what it prints depends on discovery, OpenAPI, Tables and several requests. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import type { ControlPlane } from '../support/control-plane.ts';
import { eventually } from '../support/processes.ts';
import { cells, createKubectl, HAS_KUBECTL, type Kubectl, type Told } from '../support/kubectl.ts';
import { startSandboxPlane } from '../support/sandbox-plane.ts';

const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy');
const AGE = expect.stringMatching(/^\d+[sm]/) as string;

const manifest =
  (apiVersion: string, kind: string) =>
  (name: string, content: object, meta: object = {}) => ({
    apiVersion,
    kind,
    metadata: { name, ...meta },
    ...content,
  });
const configMap = manifest('v1', 'ConfigMap');
const datacenter = manifest('infra.example.com/v1', 'Datacenter');
const server = manifest('infra.example.com/v1', 'Server');
const labels = { app: 'shop' };
const template = { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'shop:1' }] } };
const deployment = manifest('apps/v1', 'Deployment')('shop', {
  spec: { replicas: 2, selector: { matchLabels: labels }, template },
});

let plane: ControlPlane;
let kubectl: Kubectl;
const says = (command: string, told?: Told) => kubectl.says(command, told);
const refuses = (command: string, told?: Told) => kubectl.refuses(command, told);
const create = (...objects: readonly object[]) => says('create -f -', { stdin: objects });
const apply = (object: object, flags = '') => says(`apply ${flags} -f -`, { stdin: object });

describe.runIf(HAS_KUBECTL)('kubectl', () => {
  beforeAll(async () => {
    plane = await startSandboxPlane();
    kubectl = createKubectl(plane);
    for (const name of ['datacenter-crd.yaml', 'server-crd.yaml'])
      await says(`create -f ${join(DEPLOY, 'examples', name)}`);
    await says('wait crd --all --for=condition=Established');
  });

  afterAll(async () => {
    kubectl.stop();
    await plane.stop();
  });

  describe('get', () => {
    const seen: Told = { namespace: 'seen' };

    beforeAll(async () => {
      await says('create namespace seen');
      const stdin = [
        server('db', { spec: { datacenter: 'fra1', tier: 'gold', units: 9 } }, { labels: { app: 'db' } }),
        server('web1', { spec: { datacenter: 'fra1', units: 2 } }, { labels: { app: 'web' } }),
        deployment,
        manifest('v1', 'Pod')('shop-1', { spec: { containers: [{ name: 'main', image: 'shop:1' }] } }),
      ];
      await says('create -f -', { ...seen, stdin });
    });

    const NAMES = { head: ['NAME', 'DATACENTER', 'TIER'], db: ['db', 'fra1', 'gold'] };

    test.concurrent.each([
      ['servers --chunk-size=1', NAMES.head, NAMES.db, ['web1', 'fra1']],
      ['servers -A -l app=db', ['NAMESPACE', ...NAMES.head], ['seen', ...NAMES.db]],
      ['servers db --subresource=status', NAMES.head, NAMES.db],
      ['deployments', ['NAME', 'READY', 'UP-TO-DATE', 'AVAILABLE', 'AGE'], ['shop', '0/2', '0', '0', AGE]],
      ['pods', ['NAME', 'READY', 'STATUS', 'RESTARTS', 'AGE'], ['shop-1', '0/1', 'Pending', '0', AGE]],
      [
        'crd servers.infra.example.com',
        ['NAME', 'CREATED AT'],
        ['servers.infra.example.com', expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]{8}Z$/) as string],
      ],
    ])('get %s', async (args, ...lines) => {
      expect(cells(await says(`get ${args}`, seen))).toEqual(lines);
    });

    test.concurrent('all of a category, and kinds and objects that do not exist', async () => {
      expect(await says('get all -o name', seen)).toBe('pod/shop-1\ndeployment.apps/shop\n');
      expect(await refuses('get nonsense')).toContain(
        'the server doesn\'t have a resource type "nonsense"\n',
      );
      expect(await refuses('get server nope', seen)).toBe(
        'Error from server (NotFound): servers.infra.example.com "nope" not found\n',
      );
    });

    test.concurrent('-w prints each change in its own line', async () => {
      await create(configMap('watched', { data: { text: 'one' } }));
      const watch = kubectl.watches('get cm watched -w --output-watch-events');
      const printed = (count: number) => watch.lines(count).then(cells);
      expect(await printed(2)).toEqual([
        ['EVENT', 'NAME', 'DATA', 'AGE'],
        ['ADDED', 'watched', '1', AGE],
      ]);
      await says(`patch cm watched -p '{"data":{"more":"two"}}'`);
      await says('delete cm watched');
      expect((await printed(4)).slice(2)).toEqual([
        ['MODIFIED', 'watched', '2', AGE],
        ['DELETED', 'watched', '2', AGE],
      ]);
    });
  });

  describe('apply', () => {
    const spec = (what: string) =>
      says(`get ${what} -o jsonpath={.spec}`).then((text) => JSON.parse(text) as unknown);

    test.concurrent('creates, keeps and changes objects, and removes undeclared fields', async () => {
      const declared = datacenter('fra1', { spec: { location: 'Frankfurt', capacity: 12 } });
      expect(await apply(declared)).toBe('datacenter.infra.example.com/fra1 created\n');
      expect(await apply(declared)).toBe('datacenter.infra.example.com/fra1 unchanged\n');
      const less = datacenter('fra1', { spec: { location: 'Berlin' } });
      expect(await apply(less)).toBe('datacenter.infra.example.com/fra1 configured\n');
      expect(await spec('dc/fra1')).toEqual({ location: 'Berlin' });
    });

    test.concurrent('and diff show changes without making them', async () => {
      const declared = (location: string) => datacenter('dry1', { spec: { location } });
      expect(await apply(declared('Rome'), '--dry-run=server')).toContain('created (server dry run)\n');
      await apply(declared('Rome'));
      expect(await says('diff -f -', { stdin: declared('Rome') })).toBe('');
      const said = await refuses('diff -f -', { stdin: declared('Oslo') });
      expect(said.split('\n').filter((line) => /^[+-] /.test(line))).toEqual([
        ...['-  generation: 1', '+  generation: 2', '-  location: Rome', '+  location: Oslo'],
      ]);
      expect(await spec('dc/dry1')).toEqual({ location: 'Rome' });
    });

    test.concurrent('on the server side takes over from the client side', async () => {
      await apply(configMap('moved', { data: { a: 'b', c: 'd' } }));
      await apply(configMap('moved', { data: { a: 'b' } }), '--server-side');
      expect(await says('get cm moved -o jsonpath={.data}')).toBe('{"a":"b"}');
    });
  });

  describe('changes', () => {
    test.concurrent('edit returns a refused change with the reason', async () => {
      await create(datacenter('broken', { spec: { location: 'Frankfurt', capacity: 12 } }));
      const editor = `grep '^# \\*' "$1" >&2; sed -i 's/capacity: 12/capacity: twelve/' "$1"`;
      expect(await refuses('edit dc broken', { editor })).toMatch(
        /^error: datacenters\.infra\.example\.com "broken" is invalid\n# \* spec\.capacity: Invalid value: "string": spec\.capacity in body must be of type integer: "string"\n[\s\S]*error: Edit cancelled, no valid changes were saved\.\n$/,
      );
      expect(await says('edit dc broken', { editor: `sed -i 's/Frankfurt/Berlin/' "$1"` })).toContain(
        'edited\n',
      );
      expect(await says('get dc broken -o jsonpath={.spec.location}')).toBe('Berlin');
    });
  });

  describe('waits', () => {
    const hold = { finalizers: ['example.com/hold'] };
    const release = (name: string) =>
      says(`patch cm ${name} --type=merge -p '{"metadata":{"finalizers":null}}'`);

    test.concurrent('for finalizers when it deletes, and gives up at its timeout', async () => {
      await create(configMap('held', {}, hold));
      const deletion = says('delete cm held');
      await eventually('a deletion in progress', async () => {
        const said = await says('get cm held -o jsonpath={.metadata.deletionTimestamp}');
        return said === '' ? undefined : said;
      });
      expect(await refuses('delete cm held --timeout=1s')).toContain(
        'error: timed out waiting for the condition on configmaps/held\n',
      );
      await release('held');
      expect(await deletion).toBe('configmap "held" deleted\n');
    });

    test.concurrent('for a condition, and for an object that does not exist yet', async () => {
      const created = says('wait server/db --for=create');
      await create(server('db', { spec: { datacenter: 'fra1' } }));
      expect(await created).toBe('server.infra.example.com/db condition met\n');
      const ready = says('wait server/db --for=condition=Ready');
      const patch = JSON.stringify({ status: { conditions: [{ type: 'Ready', status: 'True' }] } });
      await says(`patch server db --subresource=status --type=merge -p '${patch}'`);
      expect(await ready).toBe('server.infra.example.com/db condition met\n');
    });
  });
});
