import type { Principal } from '../../api/principals.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { Store } from '../../kube/store.ts';
import { isEnabled } from '../../restore/detector.ts';

/** The principals of all enabled detectors. */
export const restorersOf = (detectors: Pick<Store<RestoreDetector>, 'list'>): readonly Principal[] =>
  detectors
    .list()
    .filter(isEnabled)
    .flatMap(({ spec }) => spec.principals);
