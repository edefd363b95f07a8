/** What the cluster shows of the authority: asked before a rotation goes a step further. */
export interface TrustEvidence {
  /** Targets of the CA bundle that do not hold the root of this generation yet, named for people; undefined: not known yet. */
  readonly targetsWithout: (generation: string) => readonly string[] | undefined;
  /** How many live serving certs this generation signed; undefined: not known yet. */
  readonly leavesOf: (generation: string) => number | undefined;
}
