import type { FuzzTarget } from './target.ts';
import { cel } from './targets/cel.ts';
import { authoritySecret, pem } from './targets/certificates.ts';
import { conversions, conversionText } from './targets/conversions.ts';
import { jsonPatch, jsonText } from './targets/json.ts';
import { sandboxPatches } from './targets/patches.ts';
import { paths, policies } from './targets/policies.ts';
import { reviews } from './targets/reviews.ts';

export const ALL_TARGETS: readonly FuzzTarget[] = [
  ...[jsonText, jsonPatch, reviews, cel, policies, paths],
  ...[pem, authoritySecret, conversions, conversionText],
  ...sandboxPatches,
];
