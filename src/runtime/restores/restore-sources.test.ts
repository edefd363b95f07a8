import { expect, test } from 'vitest';

import type { RestoreDetector } from '../../api/restore-detector.ts';
import { outsideNamespaces } from './restore-sources.ts';

const COVERED = ['gatehouse-system', 'velero'];

test.each([
  ['a namespace that --namespaces leaves out', true, ['velero', 'k8up'], COVERED, ['k8up']],
  ['covered namespaces', true, ['velero'], COVERED, []],
  ['all namespaces', true, ['*'], COVERED, []],
  ['a namespace without --namespaces', true, ['k8up'], undefined, []],
  ['a namespace for a cluster-scoped kind', false, ['k8up'], COVERED, []],
])(
  'which namespaces are left out if a detector trusts %s',
  (_what, namespaced, namespaces, covered, expected) => {
    const detector = { spec: { namespaces } } as unknown as RestoreDetector;
    expect(outsideNamespaces({ namespaced }, detector, covered)).toEqual(expected);
  },
);
