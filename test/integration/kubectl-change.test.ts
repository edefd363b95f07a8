// suite: processes
/** kubectl changes objects: with patches, an editor, complete replacements, and the commands for a single field. */
import { describe, expect, test } from 'vitest';

import {
  configMapManifest,
  datacenterManifest,
  deploymentManifest,
  serverManifest,
  serviceManifest,
} from '../support/kubectl-objects.ts';
import { describeKubectl } from '../support/kubectl-suite.ts';

const SEED = [
  ...['json', 'merge', 'edit', 'broken', 'kept', 'whole', 'marked'].map((name) =>
    datacenterManifest(name, { location: 'Frankfurt', capacity: 12 }),
  ),
  serverManifest('db', { datacenter: 'fra1' }),
  configMapManifest('settings', { colour: 'red', size: 'big' }),
  serviceManifest('web', [{ name: 'http', port: 80 }]),
  ...['patched', 'set', 'rolled', 'scaled'].map((name) => deploymentManifest(name, 1)),
];

describeKubectl('kubectl changes', SEED, (kubectl) => {
  const { says, refuses } = kubectl;
  const read = (what: string, path: string) => says(`get ${what} -o jsonpath={${path}}`);

  describe('by patches', () => {
    test.concurrent('json', async () => {
      const patch = (operation: object) => `patch dc json --type=json -p '${JSON.stringify([operation])}'`;
      const path = '/spec/capacity';
      expect(await says(patch({ op: 'replace', path, value: 5 }))).toBe(
        'datacenter.infra.example.com/json patched\n',
      );
      expect(await says(patch({ op: 'test', path, value: 5 }))).toBe(
        'datacenter.infra.example.com/json patched (no change)\n',
      );
      expect(await refuses(patch({ op: 'test', path, value: 6 }))).toBe(
        'The request is invalid: the server rejected our request due to an error in our request\n',
      );
      expect(await says(patch({ op: 'remove', path }))).toContain('patched');
      expect(await read('dc/json', '.spec')).toBe('{"location":"Frankfurt"}');
    });

    test.concurrent('merge', async () => {
      const patch = (spec: object) => `patch dc merge --type=merge -p '${JSON.stringify({ spec })}'`;
      expect(await says(patch({ capacity: null, location: 'Rome' }))).toBe(
        'datacenter.infra.example.com/merge patched\n',
      );
      expect(await refuses(patch({ capacity: 'x' }))).toBe(
        'The Datacenter "merge" is invalid: spec.capacity: Invalid value: "string": ' +
          'spec.capacity in body must be of type integer: "string"\n',
      );
      expect(await says(patch({ colour: 'red' }))).toBe(
        'datacenter.infra.example.com/merge patched (no change)\nWarning: unknown field "spec.colour"\n',
      );
      expect(await read('dc/merge', '.spec')).toBe('{"location":"Rome"}');
    });

    test.concurrent('strategic', async () => {
      const template = (...containers: readonly object[]) =>
        `patch deployment patched -p '${JSON.stringify({ spec: { template: { spec: { containers } } } })}'`;
      const images = () => read('deployment/patched', '.spec.template.spec.containers[*].image');
      expect(await says(template({ name: 'side', image: 'side:1' }))).toBe(
        'deployment.apps/patched patched\n',
      );
      expect(await images()).toBe('side:1 patched:1');
      await says(template({ name: 'main', image: 'patched:2' }, { name: 'side', $patch: 'delete' }));
      expect(await images()).toBe('patched:2');
    });

    test.concurrent('strategic, which only built-in kinds support', async () => {
      expect(await refuses(`patch dc json -p '{"spec":{}}'`)).toBe(
        'error: application/strategic-merge-patch+json is not supported by infra.example.com/v1, Kind=Datacenter: ' +
          'the body of the request was in an unknown format - accepted media types include: ' +
          'application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml\n',
      );
    });

    test.concurrent('of the status only', async () => {
      const patch = JSON.stringify({ spec: { tier: 'gold' }, status: { phase: 'Up' } });
      expect(await says(`patch server db --subresource=status --type=merge -p '${patch}'`)).toBe(
        'server.infra.example.com/db patched\n',
      );
      expect(await read('server/db', '.status.phase')).toBe('Up');
      expect(await read('server/db', '.spec')).toBe('{"datacenter":"fra1"}');
      expect(await refuses(`patch dc json --subresource=status --type=merge -p '${patch}'`)).toContain(
        '(NotFound)',
      );
    });
  });

  describe('with an editor', () => {
    test.concurrent('a valid change is stored', async () => {
      const editor = `sed -i 's/Frankfurt/Berlin/' "$1"`;
      expect(await says('edit dc edit', { editor })).toBe('datacenter.infra.example.com/edit edited\n');
      expect(await read('dc/edit', '.spec.location')).toBe('Berlin');
      expect(await says('edit dc edit', { editor })).toBe('Edit cancelled, no changes made.\n');
    });

    test.concurrent('a refused change is returned with the reason', async () => {
      const editor = `grep '^# \\*' "$1" >&2; sed -i 's/capacity: 12/capacity: twelve/' "$1"`;
      expect(await refuses('edit dc broken', { editor })).toMatch(
        /^error: datacenters\.infra\.example\.com "broken" is invalid\n# \* spec\.capacity: Invalid value: "string": spec\.capacity in body must be of type integer: "string"\n[\s\S]*error: Edit cancelled, no valid changes were saved\.\n$/,
      );
      expect(await read('dc/broken', '.spec.capacity')).toBe('12');
    });

    test.concurrent('a name cannot be edited', async () => {
      const editor = `sed -i 's/name: kept/name: other/' "$1"`;
      expect(await refuses('edit dc kept', { editor })).toContain(
        'error: At least one of apiVersion, kind and name was changed\n',
      );
    });
  });

  describe('with replace', () => {
    const replaced = (meta: object = {}) => {
      const { metadata, ...rest } = datacenterManifest('whole', { location: 'Rome' });
      return { ...rest, metadata: { ...metadata, ...meta } };
    };

    test.concurrent('replace', async () => {
      expect(await says('replace -f -', { stdin: replaced() })).toBe(
        'datacenter.infra.example.com/whole replaced\n',
      );
      expect(await read('dc/whole', '.spec')).toBe('{"location":"Rome"}');
      expect(await refuses('replace -f -', { stdin: replaced({ resourceVersion: '1' }) })).toBe(
        'Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on ' +
          'datacenters.infra.example.com "whole": the object has been modified; ' +
          'please apply your changes to the latest version and try again\n',
      );
      expect(await refuses('replace -f -', { stdin: replaced({ name: 'none' }) })).toBe(
        'Error from server (NotFound): error when replacing "STDIN": datacenters.infra.example.com "none" not found\n',
      );
      expect(await says('replace --force -f -', { stdin: replaced() })).toBe(
        'datacenter.infra.example.com "whole" deleted\ndatacenter.infra.example.com/whole replaced\n',
      );
    });

    test.concurrent('replace of an immutable field', async () => {
      const stdin = { ...configMapManifest('settings', { colour: 'blue' }), immutable: true };
      expect(await says('replace -f -', { stdin })).toBe('configmap/settings replaced\n');
      expect(await refuses('replace -f -', { stdin: configMapManifest('settings', {}) })).toBe(
        'The ConfigMap "settings" is invalid: \n' +
          '* immutable: Forbidden: field is immutable when `immutable` is set\n' +
          '* data: Forbidden: field is immutable when `immutable` is set\n',
      );
    });
  });

  describe('one field', () => {
    test.concurrent('label', async () => {
      const label = (change: string) => `label dc marked ${change}`;
      expect(await says(label('rack=1'))).toBe('datacenter.infra.example.com/marked labeled\n');
      expect(await says(label('rack=1'))).toBe('datacenter.infra.example.com/marked not labeled\n');
      expect(await refuses(label('rack=2'))).toBe(
        "error: 'rack' already has a value (1), and --overwrite is false\n",
      );
      expect(await says(label('rack=2 --overwrite'))).toBe('datacenter.infra.example.com/marked labeled\n');
      expect(await says('get dc -l rack=2 -o name')).toBe('datacenter.infra.example.com/marked\n');
      expect(await says(label('rack-'))).toBe('datacenter.infra.example.com/marked unlabeled\n');
      expect(await says('get dc -l rack -o name')).toBe('');
    });

    test.concurrent('annotate', async () => {
      const annotate = (change: string) => `annotate svc web ${change}`;
      expect(await says(annotate('note=one'))).toBe('service/web annotated\n');
      expect(await refuses(annotate('note=two'))).toContain('--overwrite is false');
      expect(await says(annotate('note=two --overwrite'))).toBe('service/web annotated\n');
      expect(await read('svc/web', '.metadata.annotations')).toBe('{"note":"two"}');
      expect(await says(annotate('note-'))).toBe('service/web annotated\n');
      expect(await read('svc/web', '.metadata.annotations')).toBe('');
    });

    test.concurrent('set', async () => {
      expect(await says('set image deployment/set main=set:2')).toBe('deployment.apps/set image updated\n');
      expect(await says('set env deployment/set LEVEL=debug')).toBe('deployment.apps/set env updated\n');
      const container = '.spec.template.spec.containers[0]';
      expect(await read('deployment/set', `${container}.image`)).toBe('set:2');
      expect(await read('deployment/set', `${container}.env`)).toBe('[{"name":"LEVEL","value":"debug"}]');
      expect(await says('set selector svc web app=other')).toBe('service/web selector updated\n');
    });

    test.concurrent('scale', async () => {
      const scale = (what: string) => `scale ${what} --replicas=3`;
      expect(await says(scale('deployment scaled'))).toBe('deployment.apps/scaled scaled\n');
      expect(await read('deployment/scaled', '.spec.replicas')).toBe('3');
      expect(await refuses(scale('deployment scaled --current-replicas=2'))).toBe(
        'error: Expected replicas to be 2, was 3\n',
      );
      expect(await refuses(scale('server db'))).toBe(
        'Error from server (NotFound): servers.infra.example.com "db" not found\n',
      );
    });

    test.concurrent('rollout, for a Deployment without a controller', async () => {
      expect(await says('rollout restart deployment rolled')).toBe('deployment.apps/rolled restarted\n');
      expect(await says('rollout history deployment rolled')).toContain('No rollout history found.');
      expect(await refuses('rollout status deployment rolled --timeout=1s')).toContain(
        'Waiting for deployment spec update to be observed...',
      );
      const counts = ['replicas', 'updatedReplicas', 'readyReplicas', 'availableReplicas'];
      const status = { observedGeneration: 2, ...Object.fromEntries(counts.map((name) => [name, 1])) };
      const patch = JSON.stringify({ status });
      await says(`patch deployment rolled --subresource=status --type=merge -p '${patch}'`);
      expect(await says('rollout status deployment rolled')).toBe(
        'deployment "rolled" successfully rolled out\n',
      );
    });
  });
});
