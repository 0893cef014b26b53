"""A checkpoint as Python's safetensors and a reader of its manifest see it, and a file of Python's as Samerun sees it.

python_safetensors.py FIXTURE FOLDER
"""
import hashlib
import json
import os
import shutil
import subprocess
import sys

import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

FIXTURE, FOLDER = sys.argv[1:3]
DTYPES = {"float32": numpy.float32, "int64": numpy.int64, "uint8": numpy.uint8, "float64": numpy.float64}


def run(*words):
    done = subprocess.run([FIXTURE, os.path.join(FOLDER, "checkpoints"), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def weights(out):
    """What the program printed: name -> (dtype, shape, values)."""
    found = {}
    for line in out.splitlines():
        if line.startswith("weight "):
            name, rest = line[len("weight "):].split(": ", 1)
            dtype, rest = rest.split(" [", 1)
            shape, values = rest.split("]", 1)
            found[name] = (dtype, [int(size) for size in shape.split(",") if size.strip()], [float(word) for word in values.split()])
    return found


def same(array, printed):
    kinds = {"Float": numpy.float32, "Long": numpy.int64, "Double": numpy.float64, "Half": numpy.float16, "Byte": numpy.uint8, "Bool": numpy.bool_}
    dtype, shape, values = printed
    return array.dtype == kinds[dtype] and list(array.shape) == shape and numpy.array_equal(array.astype(numpy.float64).ravel(), numpy.array(values))


def check_read_by_python():
    printed = weights(run("save-epochs", "epochs=1", "weights"))
    folder = os.path.join(FOLDER, "checkpoints", "step-00000017")
    path = os.path.join(folder, "model.safetensors")
    arrays = load_file(path)
    with safe_open(path, framework="numpy") as file:
        ties = {name: kept for name, kept in file.metadata().items() if name != "format"}
    assert ties == {"again.weight": "inner.weight"}, ties
    assert set(arrays) | set(ties) == set(printed), (sorted(arrays), sorted(printed))
    for name, values in printed.items():
        assert same(arrays[ties.get(name, name)], values), name
    moments = load_file(os.path.join(folder, "optimizer.safetensors"))
    assert moments["first.weight/exp_avg"].shape == arrays["first.weight"].shape
    check_manifest(folder)


def check_manifest(folder):
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        text = file.read()
    manifest = json.loads(text)
    own = manifest["manifest_sha256"]
    assert hashlib.sha256(text.replace(own, "0" * 64).encode()).hexdigest() == own
    listed = [file for rank in manifest["ranks"] for file in rank["files"]]
    assert {file["name"] for file in listed} == set(os.listdir(folder)) - {"manifest.json"}
    contents = {}
    for file in listed:
        with open(os.path.join(folder, file["name"]), "rb") as stream:
            contents[file["name"]] = stream.read()
        assert len(contents[file["name"]]) == file["bytes"]
        assert hashlib.sha256(contents[file["name"]]).hexdigest() == file["sha256"], file["name"]
    arrays = {name: load_file(os.path.join(folder, name)) for name in contents if name.endswith(".safetensors")}
    tensors = [tensor for rank in manifest["ranks"] for tensor in rank["tensors"]]
    assert len(tensors) == sum(len(each) for each in arrays.values())
    for tensor in tensors:
        begin, end = tensor["range"]
        array = numpy.frombuffer(contents[tensor["file"]][begin:end], DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
        assert numpy.array_equal(array, arrays[tensor["file"]][tensor["name"]]), tensor["name"]


def check_written_by_python():
    random = numpy.random.default_rng(3)
    path = os.path.join(FOLDER, "python.safetensors")
    arrays = {"first.weight": random.standard_normal((5, 3)).astype(numpy.float32), "norm.num_batches_tracked": numpy.array(7),
              "half": random.standard_normal(3).astype(numpy.float16), "bytes": numpy.arange(5, dtype=numpy.uint8),
              "flags": numpy.array([True, False]), "double": random.standard_normal((2, 2)), "none": numpy.zeros((0, 4), numpy.float32)}
    save_file(arrays, path, metadata={"format": "np"})
    read = weights(run("read=" + path))
    assert set(read) == set(arrays)
    for name, array in arrays.items():
        assert same(array, read[name]), (name, read[name])


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    check_read_by_python()
    check_written_by_python()
    print("checkpoints read and files written by Python's safetensors hold the same values")
