// SPDX-License-Identifier: BSD-3-Clause
//
// odp_mpi_hooks: are libc's memory functions what libc's file holds, from the start of the program
// to after MPI_Finalize? A library that intercepts them (UCX, unless UCX_MEM_EVENTS=n) replaces
// their first instructions or their symbols.
//
//   mpirun -n 2 odp_mpi_hooks unpatched    fails if any of them is changed at any time
//   mpirun -n 2 odp_mpi_hooks patched      fails if none is: proves that the check can see it
#include "mpi_c.hpp"
#include "pattern.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <link.h>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::array names{"mmap", "munmap", "mremap", "madvise", "brk", "sbrk", "shmat", "shmdt"};
constexpr std::size_t compared = 16; // bytes at the start of each function

/// Where the running program has libc.
struct Loaded {
    std::string path;
    std::uintptr_t base = 0;
};

Loaded find_libc()
{
    Loaded libc;
    dl_iterate_phdr(
        [](dl_phdr_info *info, std::size_t, void *result) {
            if (std::strstr(info->dlpi_name, "/libc.so.6")) {
                *static_cast<Loaded *>(result) = {info->dlpi_name, info->dlpi_addr};
                return 1;
            }
            return 0;
        },
        &libc);
    if (libc.path.empty()) {
        throw std::runtime_error("no libc.so.6 among the loaded libraries");
    }
    return libc;
}

/// libc's ELF file: symbol values and bytes at them. x86-64 and other 64-bit targets.
class LibcFile {
public:
    explicit LibcFile(const std::string &path)
    {
        std::ifstream file(path, std::ios::binary);
        bytes_.assign(std::istreambuf_iterator<char>(file), {});
        if (bytes_.size() < sizeof(Elf64_Ehdr) ||
            std::memcmp(bytes_.data(), ELFMAG, SELFMAG) != 0) {
            throw std::runtime_error(path + " is not a readable ELF file");
        }
        header_ = at<Elf64_Ehdr>(0);
    }

    /// Value of a defined dynamic function symbol.
    std::uintptr_t symbol(const char *name) const
    {
        for (unsigned i = 0; i < header_.e_shnum; ++i) {
            const auto section = at<Elf64_Shdr>(header_.e_shoff + i * sizeof(Elf64_Shdr));
            if (section.sh_type != SHT_DYNSYM) {
                continue;
            }
            const auto strings =
                at<Elf64_Shdr>(header_.e_shoff + section.sh_link * sizeof(Elf64_Shdr));
            for (std::size_t k = 0; k < section.sh_size / sizeof(Elf64_Sym); ++k) {
                const auto symbol = at<Elf64_Sym>(section.sh_offset + k * sizeof(Elf64_Sym));
                const char *text = bytes_.data() + strings.sh_offset + symbol.st_name;
                const auto type = ELF64_ST_TYPE(symbol.st_info);
                if (symbol.st_shndx != SHN_UNDEF && type == STT_FUNC && !std::strcmp(text, name)) {
                    return symbol.st_value;
                }
            }
        }
        throw std::runtime_error(std::string(name) + " is no function of libc");
    }

    /// The file's bytes that are mapped at @p value.
    const char *bytes_at(std::uintptr_t value) const
    {
        for (unsigned i = 0; i < header_.e_phnum; ++i) {
            const auto segment = at<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr));
            if (segment.p_type == PT_LOAD && value >= segment.p_vaddr &&
                value + compared <= segment.p_vaddr + segment.p_filesz) {
                return bytes_.data() + segment.p_offset + (value - segment.p_vaddr);
            }
        }
        throw std::runtime_error("symbol outside libc's file");
    }

private:
    template <typename T> T at(std::size_t offset) const
    {
        if (offset + sizeof(T) > bytes_.size()) {
            throw std::runtime_error("libc's file is cut short");
        }
        T value;
        std::memcpy(&value, bytes_.data() + offset, sizeof(T));
        return value;
    }

    std::vector<char> bytes_;
    Elf64_Ehdr header_{};
};

/// Compares memory with the file, as often as asked.
class Watch {
public:
    Watch() : libc_(find_libc()), file_(libc_.path) {}

    /// Number of changed functions; each is told the first time it is seen changed.
    int look(const char *when)
    {
        int changed = 0;
        for (std::size_t i = 0; i < names.size(); ++i) {
            const std::uintptr_t value = file_.symbol(names[i]);
            const auto *memory = reinterpret_cast<const char *>(libc_.base + value);
            const bool patched = std::memcmp(memory, file_.bytes_at(value), compared) != 0;
            const bool interposed = dlsym(RTLD_DEFAULT, names[i]) != memory;
            changed += patched || interposed;
            if ((patched || interposed) && !told_[i]) {
                told_[i] = true;
                std::fprintf(stderr, "# %s: %s %s\n", names[i],
                             patched ? "first bytes differ from libc's file" : "interposed", when);
            }
        }
        return changed;
    }

private:
    Loaded libc_;
    LibcFile file_;
    std::array<bool, names.size()> told_{};
};

/// Small and large messages both ways, with buffers that come and go.
bool traffic(int rank)
{
    bool right = true;
    for (const std::size_t bytes : {std::size_t{100}, std::size_t{100000}, std::size_t{4000000}}) {
        std::vector<std::byte> out(bytes);
        std::vector<std::byte> in(bytes);
        pattern::fill(out, bytes + static_cast<unsigned>(rank));
        const int count = static_cast<int>(bytes);
        MPI_Sendrecv(out.data(), count, MPI_BYTE, 1 - rank, 0, in.data(), count, MPI_BYTE, 1 - rank,
                     0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        right = right && !pattern::check(in, bytes + static_cast<unsigned>(1 - rank));
    }
    return right;
}

int run(bool expect_patched, int argc, char **argv)
{
    Watch watch;
    int changed = watch.look("at the start of main");
    MPI_Init(&argc, &argv);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2) {
        std::fprintf(stderr, "odp_mpi_hooks: needs 2 processes, got %d\n", size);
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
    changed = std::max(changed, watch.look("after MPI_Init"));
    const bool right = traffic(rank);
    changed = std::max(changed, watch.look("after messages"));
    MPI_Finalize();
    changed = std::max(changed, watch.look("after MPI_Finalize"));
    const bool good = right && (changed != 0) == expect_patched;
    if (rank == 0 || !good) {
        std::printf("%s hooks: rank %d: %d of %zu functions changed, messages %s\n",
                    good ? "ok" : "not ok", rank, changed, names.size(), right ? "right" : "WRONG");
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

} // namespace

int main(int argc, char **argv)
{
    const std::string expected = argc == 2 ? argv[1] : "";
    if (expected != "patched" && expected != "unpatched") {
        std::fprintf(stderr, "Usage: mpirun -n 2 odp_mpi_hooks patched|unpatched\n");
        return EXIT_FAILURE;
    }
    try {
        return run(expected == "patched", argc, argv);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "odp_mpi_hooks: %s\n", error.what());
        return EXIT_FAILURE;
    }
}
