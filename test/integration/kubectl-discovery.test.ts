// suite: processes
/** kubectl's discovery of the server: the API groups, resources and schemas that it serves. */
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';

import { DEPLOY, describeKubectl } from '../support/kubectl-suite.ts';
import { cells } from '../support/kubectl.ts';

describeKubectl('kubectl asks the server', [], (kubectl) => {
  const { says, refuses } = kubectl;

  describe('resources', () => {
    const HEAD = ['NAME', 'SHORTNAMES', 'APIVERSION', 'NAMESPACED', 'KIND'];

    test.concurrent('api-resources', async () => {
      const lines = cells(await says('api-resources --cached=false'));
      expect(lines[0]).toEqual(HEAD);
      expect(lines).toContainEqual(['configmaps', 'cm', 'v1', 'true', 'ConfigMap']);
      expect(lines).toContainEqual(['deployments', 'deploy', 'apps/v1', 'true', 'Deployment']);
      expect(lines).toContainEqual(['datacenters', 'dc', 'infra.example.com/v1', 'false', 'Datacenter']);
    });

    test.concurrent('api-resources of one group, one verb, one category', async () => {
      expect(await says('api-resources --api-group=infra.example.com -o name')).toBe(
        'datacenters.infra.example.com\nservers.infra.example.com\n',
      );
      expect(await says('api-resources --api-group=authentication.k8s.io --verbs=create -o name')).toBe(
        'selfsubjectreviews.authentication.k8s.io\ntokenreviews.authentication.k8s.io\n',
      );
      expect(await says('api-resources --categories=all -o name --sort-by=name')).toBe(
        'deployments.apps\npods\nreplicasets.apps\nservices\n',
      );
      expect(cells(await says('api-resources --api-group=infra.example.com -o wide'))[1]).toEqual([
        ...['datacenters', 'dc', 'infra.example.com/v1', 'false', 'Datacenter'],
        'delete,deletecollection,get,list,patch,create,update,watch',
      ]);
    });

    test.concurrent('api-versions', async () => {
      const versions = (await says('api-versions')).trim().split('\n');
      expect(versions).toEqual(versions.toSorted());
      expect(versions).toEqual(
        expect.arrayContaining(['v1', 'apps/v1', 'apiextensions.k8s.io/v1', 'infra.example.com/v1']),
      );
    });

    test.concurrent('kubectl finds a new kind', async () => {
      await says(`create -f ${join(DEPLOY, 'base', 'crds', 'restorewindows.yaml')}`);
      await says('wait crd restorewindows.gatehouse.dev --for=condition=Established');
      expect(await says('get restorewindows')).toBe('No resources found\n');
    });
  });

  describe('server information', () => {
    test.concurrent('version', async () => {
      expect(await says('version')).toMatch(/^Server Version: v1\.37\.0\+sandbox$/m);
      expect(await says('version -o json')).toContain('"gitVersion": "v1.37.0+sandbox"');
    });

    test.concurrent('cluster-info', async () => {
      expect(await says('cluster-info')).toMatch(
        /^Kubernetes control plane is running at https:\/\/localhost:\d+\n/,
      );
    });

    test.concurrent('get --raw', async () => {
      for (const path of ['/healthz', '/livez', '/readyz']) {
        expect(await says(`get --raw ${path}`)).toBe('ok');
      }
      expect(JSON.parse(await says('get --raw /version'))).toMatchObject({ minor: '37' });
      expect(JSON.parse(await says('get --raw /openapi/v2'))).toMatchObject({ swagger: '2.0' });
      expect(JSON.parse(await says('get --raw /apis/infra.example.com/v1/datacenters'))).toMatchObject({
        kind: 'DatacenterList',
        items: [],
      });
      expect(await refuses('get --raw /nowhere')).toBe(
        'Error from server (NotFound): the server could not find the requested resource\n',
      );
    });
  });

  describe('explain', () => {
    test.concurrent('a custom kind', async () => {
      expect(await says('explain servers.spec')).toBe(
        `GROUP:      infra.example.com
KIND:       Server
VERSION:    v1

FIELD: spec <Object>


DESCRIPTION:
    <empty>
FIELDS:
  datacenter\t<string> -required-
    <no description>

  serial\t<string>
    <no description>

  tier\t<string>
    <no description>

  units\t<integer>
    <no description>


`,
      );
    });

    test.concurrent('--recursive', async () => {
      const said = await says('explain servers --recursive');
      expect(said).toContain('metadata\t<ObjectMeta>\n    annotations\t<map[string]string>\n');
      expect(said).toMatch(
        / {2}spec\t<Object> -required-\n {4}datacenter\t<string> -required-\n {4}serial\t<string>\n {4}tier\t<string>\n {4}units\t<integer>\n {2}status\t<Object>\n+$/,
      );
    });

    test.concurrent('an AdmissionPolicy', async () => {
      await says(`create -f ${join(DEPLOY, 'base', 'crds', 'admissionpolicies.yaml')}`);
      await says('wait crd admissionpolicies.gatehouse.dev --for=condition=Established');
      expect(await says('explain admissionpolicies.spec.validate')).toMatch(
        /FIELD: validate <Object>\n[\s\S]*immutable\t<\[\]string>\n {4}\S[\s\S]*references\t<\[\]Object>\n {4}\S/,
      );
      expect(await says('explain admissionpolicies.spec.failurePolicy')).toMatch(
        /^FIELD: failurePolicy <string>\nENUM:\n {4}Fail\n {4}Ignore$/m,
      );
      expect(await says('explain admissionpolicies --recursive')).toMatch(
        /^ {6}references\t<\[\]Object>\n(?: {8}.*\n)*? {8}name\t<string> -required-$/m,
      );
    });

    test.concurrent('a built-in kind', async () => {
      expect(await says('explain deployment.spec.template.spec.containers.image')).toMatch(
        /^FIELD: image <string>$/m,
      );
      expect(await says('explain cm')).toMatch(/^ {2}data\t<map\[string\]string>$/m);
    });

    test.concurrent('an unknown kind', async () => {
      expect(await refuses('explain servers.spec.colour')).toContain(
        'error: field "colour" does not exist\n',
      );
      expect(await refuses('explain unicorns')).toContain(
        'the server doesn\'t have a resource type "unicorns"\n',
      );
    });
  });
});
