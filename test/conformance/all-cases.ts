import type { ConformanceCase } from './case.ts';
import * as customResources from './cases/custom-resources.ts';
import * as objects from './cases/objects.ts';
import * as webhooks from './cases/webhooks.ts';

export const ALL_CASES: readonly ConformanceCase[] = [objects, customResources, webhooks].flatMap((groups) =>
  Object.values(groups).flat(),
);
