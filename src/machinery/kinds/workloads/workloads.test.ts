import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../json/json.ts';
import { toJson } from '../../api-object.ts';
import { created } from '../../../../test/support/sandbox/built-in-objects.ts';

const DEPLOYMENT = 'apps/v1 Deployment';

describe('a Deployment', () => {
  const template = {
    metadata: { labels: { a: 'b' } },
    spec: { containers: [{ name: 'c', image: 'i', ports: [{ containerPort: 1 }] }] },
  };
  const healthy: JsonObject = { selector: { matchLabels: { a: 'b' } }, template };

  test('gets the defaults of the API server', () => {
    expect(toJson(created(DEPLOYMENT, { spec: healthy }))).toMatchObject({
      spec: {
        replicas: 1,
        strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: '25%', maxSurge: '25%' } },
        revisionHistoryLimit: 10,
        progressDeadlineSeconds: 600,
        template: {
          spec: {
            containers: [
              { imagePullPolicy: 'Always', ports: [{ containerPort: 1, protocol: 'TCP' }], resources: {} },
            ],
            restartPolicy: 'Always',
            schedulerName: 'default-scheduler',
          },
        },
      },
      status: {},
    });
  });
});

describe('a Pod', () => {
  test.each([
    ['i', 'Always'],
    ['i:latest', 'Always'],
    ['host:5000/i', 'Always'],
    ['i:1', 'IfNotPresent'],
    ['i@sha256:0', 'IfNotPresent'],
  ])('with the image %s pulls %s', (image, imagePullPolicy) => {
    const pod = created('v1 Pod', { spec: { containers: [{ name: 'c', image }] } });
    expect(pod).toMatchObject({ spec: { containers: [{ imagePullPolicy }] }, status: { phase: 'Pending' } });
  });
});
