# ends.py - a job of some steps that ends as its argument says, on rank 1: for diagnose-runs.bats.
import os
import signal
import sys
import time

NAMES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RINGUP_RANK", "HOROVOD_RANK")


def work(rank, how):
    for step in range(5):
        print(f"step {step} loss {1 / (step + 1):.3f}", flush=True)
        time.sleep(0.02)
    if rank == 1 and how != "well":
        # The lines of the other ranks come first.
        time.sleep(0.5)
        if how == "status":
            print("input deck: missing section MESH", file=sys.stderr, flush=True)
            os._exit(2)
        if how == "exception":
            raise KeyError("labels")
        if how == "abort":
            print("frobnicator: the heap is damaged", file=sys.stderr, flush=True)
            os.abort()
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
    if how != "well":
        time.sleep(int(os.environ.get("RINGUP_TEST_HANG", "20")))
    print("training finished", flush=True)


if __name__ == "__main__":
    work(int(next((os.environ[n] for n in NAMES if n in os.environ), "0")), sys.argv[-1])
