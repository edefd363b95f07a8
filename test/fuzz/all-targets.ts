import type { FuzzTarget } from './target.ts';
import { amounts } from './targets/amounts.ts';
import { cel, celRecorded } from './targets/cel.ts';
import { authoritySecret, pem, privateKeys, serviceRequests, servingSecret } from './targets/certificates.ts';
import { conversionPolicies, conversions, conversionText } from './targets/conversions.ts';
import { documents, kubeconfigs, yamlText } from './targets/documents.ts';
import { jsonPatch, jsonText, largeLists } from './targets/json.ts';
import { paths, policies } from './targets/policies.ts';
import { detectors, ownerRecords, windows } from './targets/restore.ts';
import { reviews } from './targets/reviews.ts';
import { watchEvents, watchLines } from './targets/watch.ts';

export const ALL_TARGETS: readonly FuzzTarget[] = [
  ...[jsonText, jsonPatch, reviews, cel, policies, paths],
  ...[pem, authoritySecret, conversions, conversionText],
  ...[largeLists, celRecorded],
  ...[amounts, watchLines, watchEvents],
  ...[documents, yamlText, kubeconfigs],
  ...[detectors, windows, ownerRecords],
  ...[privateKeys, servingSecret, serviceRequests],
  conversionPolicies,
];
